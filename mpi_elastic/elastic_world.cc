// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/elastic_world.h"

#include <cstdlib>
#include <utility>

namespace bellows {

class ElasticWorld::Impl {
 public:
  World world = World::open();
};

ElasticWorld::ElasticWorld(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ElasticWorld::ElasticWorld(ElasticWorld&&) noexcept = default;
ElasticWorld& ElasticWorld::operator=(ElasticWorld&&) noexcept = default;
ElasticWorld::~ElasticWorld() = default;

ElasticWorld ElasticWorld::open(Settings) { return ElasticWorld(std::make_unique<Impl>()); }
const World& ElasticWorld::world() const { return impl_->world; }
std::uint32_t ElasticWorld::epoch() const { return 1; }
bool ElasticWorld::elastic() const { return false; }
bool ElasticWorld::change_wanted() const { return false; }

bool ElasticWorld::change(const MpiError* cause) {
  if (cause != nullptr) throw *cause;
  throw ElasticError("this world cannot change: it was not started by bellows-run --elastic");
}

void ElasticWorld::report(const Progress&) {}
void ElasticWorld::close() { impl_->world.close(); }

ElasticWorld::Update::Update(ElasticWorld& world) : world_(world) { (void)world_; }
ElasticWorld::Update::~Update() = default;

bool is_joiner() { return std::getenv("BELLOWS_JOINER") != nullptr; }
std::optional<int> saved_state() { return std::nullopt; }

}  // namespace bellows
