#include "runtime/launch.h"

#include <algorithm>
#include <array>

#include "runtime/memory.h"

namespace tpu::runtime {
namespace {

// Room for the operands of one launch: on the stack while they are few.
template <typename T, size_t N>
class Room {
 public:
  explicit Room(size_t n) {
    if (n > N) many_.resize(n);
    data_ = n > N ? many_.data() : few_.data();
  }
  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  std::array<T, N> few_;
  std::vector<T> many_;
  T* data_;
};

}  // namespace

Status launch(Device& device, const Program& program, std::span<const Parameter> parameters,
              std::span<const uint32_t> words, std::span<Value* const> outputs) {
  const size_t n = parameters.size();
  Room<PJRT_Buffer*, 16> arguments(n + 1);
  Room<int64_t, 16> keep(n);
  size_t kept = 0;
  int64_t given_bytes = 0;
  for (size_t i = 0; i < n; ++i) {
    const Parameter& p = parameters[i];
    if (!p.value->error().ok()) return p.value->error();
    arguments[i] = p.value->buffer().get();
    if (!program.donates[i]) continue;
    if (p.last) {
      given_bytes += p.value->type->bytes();
    } else {
      keep[kept++] = static_cast<int64_t>(i);
    }
  }
  ValuePtr packed;
  if (!words.empty()) {
    TPU_ASSIGN(packed, device.words(words));
    arguments[n] = packed->buffer().get();
  }
  TPU_RETURN_IF_ERROR(memory().reserve(program.name, std::max<int64_t>(0, program.output_bytes - given_bytes),
                                       program.temporary_bytes));
  Room<pjrt::Buffer, 4> made(outputs.size());
  Residence::Use executable = program.executable.use();
  if (!executable) [[unlikely]] {
    TPU_ASSIGN(executable, executable_of(device, program));
  }
  const Watcher* const watch = watcher();
  std::chrono::steady_clock::time_point start;
  if (watch != nullptr) [[unlikely]]
    start = std::chrono::steady_clock::now();
  TPU_RETURN_IF_ERROR(
      executable->execute({arguments.data(), n + (words.empty() ? 0 : 1)}, {keep.data(), kept}, made.data()));
  if (watch != nullptr) [[unlikely]]
    watch->launched(program, start);
  counters().executions.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < n; ++i) {
    if (program.donates[i] && parameters[i].last) parameters[i].value->donate();
  }
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i]->set(std::move(made[i]));
  return {};
}

}  // namespace tpu::runtime
