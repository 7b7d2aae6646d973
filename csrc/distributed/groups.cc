#include "distributed/groups.h"

#include <cstring>
#include <mutex>
#include <vector>

#include "aten/dtype.h"
#include "aten/errors.h"
#include "hlo/builder.h"
#include "pjrt/host_call.h"
#include "runtime/device.h"

namespace tpu::distributed {
namespace {

using pjrt::HostArray;
using pjrt::HostCall;
using Backend = c10::intrusive_ptr<c10d::Backend>;

// Never destroyed: programs may run while the process ends.
struct Groups {
  std::mutex mutex;
  std::vector<Backend> by_number;  // null: free
};
Groups& groups() {
  static auto* const groups = new Groups;
  return *groups;
}

Backend find(int64_t number) {
  const std::lock_guard lock(groups().mutex);
  const auto& all = groups().by_number;
  const auto i = static_cast<size_t>(number);
  return i < all.size() ? all[i] : nullptr;
}

at::Tensor tensor(const HostArray& array) {
  return at::from_blob(array.data, array.dims, at::TensorOptions().dtype(aten::to_scalar_type(array.dtype)));
}
int64_t count(const HostArray& array) {
  int64_t n = 1;
  for (const int64_t d : array.dims) n *= d;
  return n;
}
int64_t size_in_bytes(const HostArray& array) { return count(array) * size_of(array.dtype); }
// What only moves travels as bytes: Gloo does not know every dtype.
at::Tensor bytes(const HostArray& array) { return at::from_blob(array.data, {size_in_bytes(array)}, at::kByte); }
// On the root, the pieces of `array` by rank; elsewhere nothing.
std::vector<std::vector<at::Tensor>> pieces_of_root(const c10d::Backend& host, const HostCall& call,
                                                    const HostArray& array) {
  if (host.getRank() != call.integer("root")) return {};
  return {bytes(array).chunk(host.getSize())};
}

// Where a result shares no memory with its operand.
void bring(const HostArray& from, const HostArray& to) {
  if (from.data != to.data) std::memcpy(to.data, from.data, static_cast<size_t>(size_in_bytes(from)));
}

c10d::ReduceOp reduction(const HostCall& call) {
  using Op = c10d::ReduceOp;
  const std::string_view name = call.text("op");
  if (name == "sum") return Op::SUM;
  if (name == "product") return Op::PRODUCT;
  if (name == "min") return Op::MIN;
  if (name == "max") return Op::MAX;
  if (name == "band") return Op::BAND;
  if (name == "bor") return Op::BOR;
  TORCH_CHECK(name == "bxor", "no reduction '", name, "'");
  return Op::BXOR;
}

void all_reduce(c10d::Backend& host, const HostCall& call) {
  bring(call.operands[0], call.results[0]);
  std::vector tensors = {tensor(call.results[0])};
  c10d::AllreduceOptions options;
  options.reduceOp = reduction(call);
  host.allreduce(tensors, options)->wait();
}

void reduce(c10d::Backend& host, const HostCall& call) {
  bring(call.operands[0], call.results[0]);
  std::vector tensors = {tensor(call.results[0])};
  c10d::ReduceOptions options;
  options.reduceOp = reduction(call);
  options.rootRank = call.integer("root");
  host.reduce(tensors, options)->wait();
}

void reduce_scatter(c10d::Backend& host, const HostCall& call) {
  at::Tensor from = tensor(call.operands[0]), to = tensor(call.results[0]);
  c10d::ReduceScatterOptions options;
  options.reduceOp = reduction(call);
  at::Tensor flat_from = from.flatten(), flat_to = to.flatten();
  host._reduce_scatter_base(flat_to, flat_from, options)->wait();
}

void broadcast(c10d::Backend& host, const HostCall& call) {
  bring(call.operands[0], call.results[0]);
  std::vector tensors = {bytes(call.results[0])};
  c10d::BroadcastOptions options;
  options.rootRank = call.integer("root");
  host.broadcast(tensors, options)->wait();
}

void all_gather(c10d::Backend& host, const HostCall& call) {
  at::Tensor from = bytes(call.operands[0]), to = bytes(call.results[0]);
  host._allgather_base(to, from)->wait();
}

void gather(c10d::Backend& host, const HostCall& call) {
  std::vector from = {bytes(call.operands[0])};
  std::vector<std::vector<at::Tensor>> to = pieces_of_root(host, call, call.results[0]);
  c10d::GatherOptions options;
  options.rootRank = call.integer("root");
  host.gather(to, from, options)->wait();
}

void scatter(c10d::Backend& host, const HostCall& call) {
  std::vector to = {bytes(call.results[0])};
  std::vector<std::vector<at::Tensor>> from = pieces_of_root(host, call, call.operands[0]);
  c10d::ScatterOptions options;
  options.rootRank = call.integer("root");
  host.scatter(to, from, options)->wait();
}

void all_to_all(c10d::Backend& host, const HostCall& call) {
  at::Tensor from = bytes(call.operands[0]), to = bytes(call.results[0]);
  const auto in_bytes = [](std::span<const int64_t> rows, const HostArray& array) {
    int64_t row = size_of(array.dtype);
    for (const int64_t d : array.dims.subspan(1)) row *= d;
    std::vector<int64_t> sizes;
    for (const int64_t r : rows) sizes.push_back(r * row);
    return sizes;
  };
  std::vector<int64_t> received = in_bytes(call.integers("received"), call.results[0]);
  std::vector<int64_t> sent = in_bytes(call.integers("sent"), call.operands[0]);
  host.alltoall_base(to, from, received, sent)->wait();
}

template <void (*kCollective)(c10d::Backend&, const HostCall&)>
Status run(const HostCall& call) {
  const int64_t number = call.integer("group");
  const Backend host = find(number);
  if (!host) return invalid("the process group of this program was destroyed");
  // Without elements on any rank; of all_to_all only on this one.
  if (kCollective != &all_to_all && count(call.results[0]) + count(call.operands[0]) == 0) return {};
  try {
    const at::AutoDispatchBelowAutograd below;  // the thread is the plugin's
    kCollective(*host, call);
    return {};
  } catch (const c10::Error& e) {
    return {Code::kUnavailable, e.what_without_backtrace()};
  } catch (const std::exception& e) {
    return {Code::kUnavailable, e.what()};
  }
}

Status enable() {
  TPU_ASSIGN(runtime::Device * device, runtime::Device::get());
  if (!device->on_cpu()) {
    return {Code::kUnimplemented,
            "collectives run on CPU plugins only so far, and this one is for " + device->client().platform_name()};
  }
  pjrt::add_host_function("all_reduce", &run<all_reduce>);
  pjrt::add_host_function("reduce", &run<reduce>);
  pjrt::add_host_function("reduce_scatter", &run<reduce_scatter>);
  pjrt::add_host_function("broadcast", &run<broadcast>);
  pjrt::add_host_function("all_gather", &run<all_gather>);
  pjrt::add_host_function("gather", &run<gather>);
  pjrt::add_host_function("scatter", &run<scatter>);
  pjrt::add_host_function("all_to_all", &run<all_to_all>);
  return pjrt::enable_host_calls(device->client().plugin(), hlo::kHostCall);
}

}  // namespace

int64_t add_group(Backend host) {
  aten::check(enable().within("tpu_dist"));
  const std::lock_guard lock(groups().mutex);
  auto& all = groups().by_number;
  const auto free = std::find(all.begin(), all.end(), nullptr);
  const int64_t number = free - all.begin();
  if (free == all.end()) {
    all.push_back(std::move(host));
  } else {
    *free = std::move(host);
  }
  return number;
}

void remove_group(int64_t number) noexcept {
  Backend last;  // dies without the lock
  const std::lock_guard lock(groups().mutex);
  std::swap(last, groups().by_number[static_cast<size_t>(number)]);
}

}  // namespace tpu::distributed
