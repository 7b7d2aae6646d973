#include "aten/generator.h"

#include <ATen/Utils.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <c10/core/GeneratorImpl.h>

namespace tpu::aten {
namespace {

struct GeneratorImpl final : c10::GeneratorImpl {
  GeneratorImpl()
      : c10::GeneratorImpl(at::Device(at::kPrivateUse1, 0), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t s) override {
    seed_ = s;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    const uint64_t random = c10::detail::getNonDeterministicRandom(true);
    set_current_seed(random);
    return random;
  }

  // State: seed and offset, 8 bytes each, as on CUDA.
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == 16, "RNG state of device tpu has 16 bytes, got ", state.numel());
    uint64_t words[2];
    std::memcpy(words, state.data_dtype_initialized<uint8_t>(), sizeof(words));
    seed_ = words[0];
    offset_ = words[1];
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::empty({16}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
    const uint64_t words[2] = {seed_, offset_};
    std::memcpy(state.data_ptr(), words, sizeof(words));
    return state.getIntrusivePtr();
  }

 private:
  GeneratorImpl* clone_impl() const override {
    auto* copy = new GeneratorImpl;
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

}  // namespace

at::Generator make_generator() { return at::make_generator<GeneratorImpl>(); }

const at::Generator& default_generator() {
  static const auto* const generator = [] {
    auto* g = new at::Generator(make_generator());
    g->seed();
    return g;
  }();
  return *generator;
}

std::pair<uint64_t, uint64_t> draw(at::GeneratorImpl* generator, uint64_t count) {
  if (generator == nullptr) generator = default_generator().unsafeGetGeneratorImpl();
  TORCH_CHECK(generator->device().type() == at::kPrivateUse1, "Expected a 'tpu' device type for generator but found '",
              generator->device().type(), "'");
  const std::lock_guard lock(generator->mutex_);
  const uint64_t offset = generator->get_offset();
  generator->set_offset(offset + count);
  return {generator->current_seed(), offset};
}

}  // namespace tpu::aten
