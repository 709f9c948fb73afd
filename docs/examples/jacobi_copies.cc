// SPDX-License-Identifier: Apache-2.0
#include "jacobi_copies.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <system_error>
#include <utility>

using bellows::check_mpi;
using bellows::ElasticWorld;
using bellows::World;

namespace {

// Puts a plate together of which each rank has some rows, and zeros for the others. Rows that
// several have are the same to the bit.
void combine(const World& world, std::vector<double>& plate) {
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, plate.data(), static_cast<int>(plate.size()), MPI_UINT64_T,
                          MPI_BOR, world.communicator()),
            "MPI_Allreduce of the plate");
}

}  // namespace

Block block_of(int rank, int ranks, int rows) {
  const auto begin = [&](std::int64_t r) { return static_cast<int>(rows * r / ranks); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

void Copies::keep(ElasticWorld& elastic, int iteration, const double* block) {
  const World& world = elastic.world();
  const int size = world.size(), before = (world.rank() + size - 1) % size;
  const Block mine = block_of(world.rank(), size, rows_), theirs = block_of(before, size, rows_);
  const std::size_t count = width_ * static_cast<std::size_t>(mine.rows);
  Piece own{iteration, mine.first, {block, block + count}};
  Piece other{iteration, theirs.first, {}};
  other.values.resize(width_ * static_cast<std::size_t>(theirs.rows));
  check_mpi(MPI_Sendrecv(block, static_cast<int>(count), MPI_DOUBLE, (world.rank() + 1) % size, 2,
                         other.values.data(), static_cast<int>(other.values.size()), MPI_DOUBLE,
                         before, 2, world.communicator(), MPI_STATUS_IGNORE),
            "MPI_Sendrecv of the copies");
  const ElasticWorld::Update update(elastic);
  superseded_ = pieces_.size();
  pieces_.push_back(std::move(own));
  if (size > 1) pieces_.push_back(std::move(other));
}

void Copies::confirm(ElasticWorld& elastic) {
  if (superseded_ == 0) return;
  const ElasticWorld::Update update(elastic);
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(superseded_));
  superseded_ = 0;
}

// Who gets through the reduction has every row, and may drop the rest. Who gets through the barrier
// knows that all have, so that nobody is missed who leaves then.
void Copies::keep_all(ElasticWorld& elastic, int iteration, const double* block) {
  const World& world = elastic.world();
  const Block mine = block_of(world.rank(), world.size(), rows_);
  std::vector<double> plate(width_ * static_cast<std::size_t>(rows_));
  std::copy_n(block, width_ * static_cast<std::size_t>(mine.rows),
              &plate[width_ * static_cast<std::size_t>(mine.first)]);
  combine(world, plate);
  {
    const ElasticWorld::Update update(elastic);
    pieces_.clear();
    pieces_.push_back({iteration, 0, std::move(plate)});
    superseded_ = 0;
  }
  check_mpi(MPI_Barrier(world.communicator()), "MPI_Barrier before a change");
}

// All is decided by what reductions deliver, so all who get through agree.
Copies::Generation Copies::newest(const World& world) const {
  Generation generation;
  generation.iteration = INT_MAX;
  do {
    int below = 0;
    for (const Piece& piece : pieces_)
      if (piece.iteration < generation.iteration) below = std::max(below, piece.iteration);
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &below, 1, MPI_INT, MPI_MAX, world.communicator()),
              "MPI_Allreduce of the generation");
    generation.iteration = below;
  } while (generation.iteration > 0 && !collect(world, generation));
  if (generation.iteration == 0) generation.plate.clear();
  return generation;
}

// False when a row of it is missing.
bool Copies::collect(const World& world, Generation& generation) const {
  std::vector<int> found(static_cast<std::size_t>(rows_));
  generation.plate.assign(found.size() * width_, 0);
  for (const Piece& piece : pieces_) {
    if (piece.iteration != generation.iteration) continue;
    std::copy(piece.values.begin(), piece.values.end(),
              &generation.plate[width_ * static_cast<std::size_t>(piece.first)]);
    std::fill_n(found.begin() + piece.first, piece.values.size() / width_, 1);
  }
  check_mpi(
      MPI_Allreduce(MPI_IN_PLACE, found.data(), rows_, MPI_INT, MPI_MAX, world.communicator()),
      "MPI_Allreduce of the rows found");
  generation.lost = std::count(found.begin(), found.end(), 0) > 0;
  if (!generation.lost) combine(world, generation.plate);
  return !generation.lost;
}

void Copies::save(int file) const {
  for (const Piece& piece : pieces_) {
    const std::uint64_t head[] = {static_cast<std::uint64_t>(piece.iteration),
                                  static_cast<std::uint64_t>(piece.first), piece.values.size()};
    write_all(file, head, sizeof head);
    write_all(file, piece.values.data(), piece.values.size() * sizeof(double));
  }
  const std::uint64_t end[3] = {};
  write_all(file, end, sizeof end);
}

void Copies::restore(int file) {
  std::uint64_t head[3];
  while (read_all(file, head, sizeof head), head[2] > 0) {
    std::vector<double> values(head[2]);
    read_all(file, values.data(), values.size() * sizeof(double));
    pieces_.push_back({static_cast<int>(head[0]), static_cast<int>(head[1]), std::move(values)});
  }
}

namespace {

template <typename Byte>
void transfer(auto call, int file, Byte* at, std::size_t size) {
  while (size > 0) {
    const ssize_t done = call(file, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw std::system_error(errno, std::generic_category(), "saved state");
    at += done;
    size -= static_cast<std::size_t>(done);
  }
}

}  // namespace

void write_all(int file, const void* data, std::size_t size) {
  transfer(::write, file, static_cast<const char*>(data), size);
}
void read_all(int file, void* data, std::size_t size) {
  transfer(::read, file, static_cast<char*>(data), size);
}
