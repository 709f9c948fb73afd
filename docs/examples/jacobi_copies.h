// SPDX-License-Identifier: Apache-2.0
// Copies of a plate's rows that outlive deaths, for jacobi. Each rank computes a block of rows,
// which is gone when it dies; so somebody else must have them:
//
// - Now and then each rank keeps a copy of its rows and of those of the rank before it. All ranks'
//   copies of one iteration are a *generation*, of which no row is lost when one rank dies, or
//   several that are no neighbours. The older generation is kept until a reduction after the
//   copying has completed: that takes a share of every rank, so all have the newer one.
// - After a change all go back to the newest generation of which every row is left.
// - Before a planned change all ranks gather the whole plate, since any of them, neighbours too,
//   may be about to leave.
//
// The cost: 2 blocks of memory (4 for a moment), a message of one block each time, and the whole
// plate in each rank during a change. When two neighbours die at once, or one dies while the other
// leaves, rows are lost.
#pragma once

#include <cstddef>
#include <vector>

#include "mpi_elastic/elastic_world.h"

struct Block {
  int first, rows;
};
/// The rows of a plate that a rank computes.
Block block_of(int rank, int ranks, int rows);

class Copies {
 public:
  Copies(int rows, std::size_t width) : rows_(rows), width_(width) {}

  /// Keeps a copy of this rank's block and of its neighbour's. Collective.
  void keep(bellows::ElasticWorld& elastic, int iteration, const double* block);
  /// To be called when a reduction after keep() has completed: drops what is older.
  void confirm(bellows::ElasticWorld& elastic);
  /// Keeps the whole plate. When it returns all ranks have it. Collective.
  void keep_all(bellows::ElasticWorld& elastic, int iteration, const double* block);

  struct Generation {
    int iteration = 0;  // 0: there is none, every row of which is left
    std::vector<double> plate;
    bool lost = false;  // there were rows of others
  };
  /// The newest generation of which the ranks still have every row. Collective; changes nothing.
  Generation newest(const bellows::World& world) const;

  /// To and from an open file.
  void save(int file) const;
  void restore(int file);

 private:
  struct Piece {  // rows from `first` on, as they were after an iteration
    int iteration, first;
    std::vector<double> values;
  };
  bool collect(const bellows::World& world, Generation& generation) const;

  int rows_;
  std::size_t width_;
  std::vector<Piece> pieces_;   // written within an Update only: save() may run at any other time
  std::size_t superseded_ = 0;  // so many of the first ones, once all have the later ones
};

/// All bytes, or std::system_error.
void write_all(int file, const void* data, std::size_t size);
void read_all(int file, void* data, std::size_t size);
