#include "distributed/process_group.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "aten/errors.h"
#include "distributed/groups.h"
#include "runtime/region.h"

namespace tpu::distributed {
namespace {

using at::Tensor;
using c10d::OpType;
using Tensors = std::vector<Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

constexpr const char* kSchemas[] = {
    "all_reduce(Tensor x, str op, int group, int size) -> Tensor",
    "reduce(Tensor x, str op, int root, int group, int size) -> Tensor",
    "reduce_scatter(Tensor x, str op, int group, int size) -> Tensor",
    "broadcast(Tensor x, int root, int group) -> Tensor",
    "all_gather(Tensor x, int group, int size) -> Tensor",
    "gather(Tensor x, int root, int rows, int group) -> Tensor",
    "scatter(Tensor x, int root, int group) -> Tensor",
    "all_to_all(Tensor x, int[] received, int[] sent, int group) -> Tensor",
};

template <typename... Args>
Tensor call(const char* name, const Args&... args) {
  torch::jit::Stack stack{c10::IValue(args)...};
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
  return stack.back().toTensor();
}

std::string name_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM: return "sum";
    case c10d::ReduceOp::AVG: return "avg";
    case c10d::ReduceOp::PRODUCT: return "product";
    case c10d::ReduceOp::MIN: return "min";
    case c10d::ReduceOp::MAX: return "max";
    case c10d::ReduceOp::BAND: return "band";
    case c10d::ReduceOp::BOR: return "bor";
    case c10d::ReduceOp::BXOR: return "bxor";
    default: TORCH_CHECK(false, "tpu_dist: this ReduceOp is not supported");
  }
}

// Its results are in order after it, as on a stream: nothing to wait for.
class Recorded final : public c10d::Work {
 public:
  Recorded(int rank, OpType type, Tensors outputs) : Work(rank, type), outputs_(std::move(outputs)) {}
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
  void synchronize() override {}
  Tensors result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                           std::vector{c10::Device(c10::DeviceType::PrivateUse1, 0)});
    future->markCompleted(c10::IValue(outputs_));
    return future;
  }

 private:
  Tensors outputs_;
};

// A message over the host, and the tensor that it is for.
class Message final : public c10d::Work {
 public:
  Message(int rank, OpType type, WorkPtr work, Tensor host, Tensor target)
      : Work(rank, type), work_(std::move(work)), host_(std::move(host)), target_(std::move(target)) {}
  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  int sourceRank() const override { return work_->sourceRank(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  void abort() override { work_->abort(); }
  void synchronize() override { wait(kNoTimeout); }
  bool wait(std::chrono::milliseconds timeout) override {
    const std::lock_guard lock(once_);
    aten::check(runtime::Region::cut_all());  // the sender may wait for it
    const bool done = work_->wait(timeout);
    if (!done || !target_.defined()) return done;
    const at::AutoDispatchBelowADInplaceOrView below;
    std::exchange(target_, Tensor()).copy_(host_);
    return true;
  }

 private:
  std::mutex once_;
  WorkPtr work_;
  Tensor host_;    // lives until the message has gone
  Tensor target_;  // of a receive that is not done
};

class ProcessGroup final : public c10d::Backend {
 public:
  explicit ProcessGroup(c10::intrusive_ptr<c10d::Backend> host)
      : Backend(host->getRank(), host->getSize()), host_(std::move(host)), group_(add_group(host_)) {}
  ~ProcessGroup() override { remove_group(group_); }

  const std::string getBackendName() const override { return "tpu_dist"; }
  void setTimeout(std::chrono::milliseconds timeout) override { host_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return host_->getSequenceNumberForGroup(); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return reduce_each(tensors, options.reduceOp, OpType::ALLREDUCE);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    return reduce_each(tensors, options.reduceOp, OpType::ALLREDUCE_COALESCED);
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    Tensor& x = only(tensors);
    const Tensor sum = call("tpu_dist::reduce", x, name_of(options.reduceOp), options.rootRank, group_, size64());
    if (options.rootRank == rank_) x.copy_(sum);
    return recorded(OpType::REDUCE, tensors);
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    Tensor& x = only(tensors);
    x.copy_(call("tpu_dist::broadcast", x, options.rootRank, group_));
    return recorded(OpType::BROADCAST, tensors);
  }

  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions&) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor& x = only(inputs);
    Tensors& parts = lists(outputs, x);
    put(call("tpu_dist::all_gather", x, group_, size64()), parts);
    return recorded(OpType::ALLGATHER, parts);
  }

  WorkPtr _allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions&) override {
    Tensors outputs = {output};
    gather_into(output, input);
    return recorded(OpType::_ALLGATHER_BASE, outputs);
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions&) override {
    same_number(outputs, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) gather_into(outputs[i], inputs[i]);
    return recorded(OpType::COALESCED, outputs);
  }

  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor& x = only(inputs);
    const bool root = options.rootRank == rank_;
    const Tensor all = call("tpu_dist::gather", x, options.rootRank, root ? size64() : int64_t{0}, group_);
    if (root) put(all, lists(outputs, x));
    return recorded(OpType::GATHER, root ? outputs[0] : Tensors());
  }

  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    Tensor& x = only(outputs);
    std::vector<int64_t> none = x.sizes().vec();
    none.insert(none.begin(), 0);
    const Tensor all = options.rootRank == rank_ ? at::stack(lists(inputs, x)) : at::empty(none, x.options());
    x.copy_(call("tpu_dist::scatter", all, options.rootRank, group_));
    return recorded(OpType::SCATTER, outputs);
  }

  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    Tensor& x = only(outputs);
    x.copy_(call("tpu_dist::reduce_scatter", at::stack(lists(inputs, x)), name_of(options.reduceOp), group_, size64()));
    return recorded(OpType::REDUCE_SCATTER, outputs);
  }

  WorkPtr _reduce_scatter_base(Tensor& output, Tensor& input, const c10d::ReduceScatterOptions& options) override {
    scatter_sum(output, input, options.reduceOp);
    Tensors outputs = {output};
    return recorded(OpType::_REDUCE_SCATTER_BASE, outputs);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    same_number(outputs, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) scatter_sum(outputs[i], inputs[i], options.reduceOp);
    return recorded(OpType::COALESCED, outputs);
  }

  WorkPtr alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& received, std::vector<int64_t>& sent,
                        const c10d::AllToAllOptions&) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    check_pair(output, input);
    c10d::checkSplitSizes(received, output, size_);
    c10d::checkSplitSizes(sent, input, size_);
    const auto rows = [&](const std::vector<int64_t>& splits, const Tensor& x) {
      return splits.empty() ? std::vector<int64_t>(static_cast<size_t>(size_), x.size(0) / size_) : splits;
    };
    output.copy_(call("tpu_dist::all_to_all", input, rows(received, output), rows(sent, input), group_));
    Tensors outputs = {output};
    return recorded(OpType::ALLTOALL_BASE, outputs);
  }

  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto total = [&](const Tensors& tensors) {
      TORCH_CHECK_VALUE(static_cast<int>(tensors.size()) == size_, "tpu_dist: all_to_all takes one tensor for each of ",
                        size_, " ranks, got ", tensors.size());
      std::vector<int64_t> counts;
      for (const Tensor& t : tensors) {
        on_device(t);
        same_dtype(t, tensors[0]);
        counts.push_back(t.numel());
      }
      return counts;
    };
    const std::vector<int64_t> received = total(outputs), sent = total(inputs);
    same_dtype(outputs[0], inputs[0]);
    Tensors flat;
    for (const Tensor& t : inputs) flat.push_back(t.flatten());
    const Tensor all = call("tpu_dist::all_to_all", at::cat(flat), received, sent, group_);
    const Tensors parts = all.split_with_sizes(received);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].copy_(parts[i].view(outputs[i].sizes()));
    return recorded(OpType::ALLTOALL, outputs);
  }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    Tensors host = {only(tensors).detach().to(at::kCPU).contiguous()};
    return message(OpType::SEND, host_->send(host, to, tag), host[0], Tensor());
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    Tensors host = {like(only(tensors))};
    return message(OpType::RECV, host_->recv(host, from, tag), host[0], tensors[0].detach());
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    Tensors host = {like(only(tensors))};
    return message(OpType::RECVANYSOURCE, host_->recvAnysource(host, tag), host[0], tensors[0].detach());
  }

  // All that this process recorded is launched, and every rank came here.
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    aten::check(runtime::Region::cut_all());
    return host_->barrier(options);
  }

  // What was recorded may still have to run, for the other ranks' sake.
  void shutdown() override {
    aten::check(runtime::Region::cut_all());
    host_->shutdown();
  }
  void abort() override { host_->abort(); }

 private:
  static void on_device(const Tensor& t) {
    TORCH_CHECK_VALUE(t.device().type() == at::kPrivateUse1, "tpu_dist: tensors must be on tpu, found one on ",
                      t.device());
    TORCH_CHECK_VALUE(!t.is_sparse(), "tpu_dist: tensors must be dense");
  }
  static Tensor& only(Tensors& tensors) {
    TORCH_CHECK_VALUE(tensors.size() == 1, "tpu_dist: one tensor a process, got ", tensors.size());
    on_device(tensors[0]);
    return tensors[0];
  }
  static void same_number(const Tensors& outputs, const Tensors& inputs) {
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "tpu_dist: ", outputs.size(), " outputs for ", inputs.size(),
                      " inputs");
  }
  static void same_dtype(const Tensor& output, const Tensor& input) {
    TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(), "tpu_dist: the output has dtype ",
                     output.scalar_type(), ", the input ", input.scalar_type());
  }
  static void check_pair(const Tensor& output, const Tensor& input) {
    on_device(output);
    on_device(input);
    same_dtype(output, input);
  }
  static Tensor like(const Tensor& x) { return at::empty(x.sizes(), x.options().device(at::kCPU)); }

  // One tensor for each rank, each like `x`.
  Tensors& lists(std::vector<Tensors>& all, const Tensor& x) const {
    TORCH_CHECK_VALUE(all.size() == 1 && static_cast<int>(all[0].size()) == size_, "tpu_dist: one tensor for each of ",
                      size_, " ranks, got ", all.empty() ? 0 : all[0].size());
    for (const Tensor& t : all[0]) {
      on_device(t);
      same_dtype(t, x);
      TORCH_CHECK_VALUE(t.sizes() == x.sizes(), "tpu_dist: tensors of all ranks must have one shape, got ", t.sizes(),
                        " and ", x.sizes());
    }
    return all[0];
  }
  static void put(const Tensor& rows, Tensors& to) {
    for (size_t i = 0; i < to.size(); ++i) to[i].copy_(rows.select(0, static_cast<int64_t>(i)));
  }

  WorkPtr reduce_each(Tensors& tensors, const c10d::ReduceOp& op, OpType type) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const std::string name = name_of(op);
    for (Tensor& x : tensors) {
      on_device(x);
      x.copy_(call("tpu_dist::all_reduce", x, name, group_, size64()));
    }
    return recorded(type, tensors);
  }

  void gather_into(Tensor& output, const Tensor& input) {
    const at::AutoDispatchBelowADInplaceOrView below;
    check_pair(output, input);
    TORCH_CHECK_VALUE(output.numel() == input.numel() * size_,
                      "output tensor size must be equal to world_size times input tensor size");
    output.copy_(call("tpu_dist::all_gather", input, group_, size64()).view(output.sizes()));
  }

  void scatter_sum(Tensor& output, const Tensor& input, const c10d::ReduceOp& op) {
    const at::AutoDispatchBelowADInplaceOrView below;
    check_pair(output, input);
    TORCH_CHECK_VALUE(input.numel() == output.numel() * size_,
                      "input tensor must be the same size as output size times world size");
    std::vector<int64_t> rows = output.sizes().vec();
    rows.insert(rows.begin(), size_);
    output.copy_(call("tpu_dist::reduce_scatter", input.reshape(rows), name_of(op), group_, size64()));
  }

  int64_t size64() const { return size_; }
  WorkPtr recorded(OpType type, const Tensors& outputs) const {
    return c10::make_intrusive<Recorded>(rank_, type, outputs);
  }
  WorkPtr message(OpType type, WorkPtr work, Tensor host, Tensor target) const {
    return c10::make_intrusive<Message>(rank_, type, std::move(work), std::move(host), std::move(target));
  }

  const c10::intrusive_ptr<c10d::Backend> host_;
  const int64_t group_;
};

// Every call of c10d. One that is not of this device makes the host wait for other ranks, which may wait for what was
// recorded here: so that is launched first.
void before_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (!keys.has(c10::DispatchKey::PrivateUse1)) aten::check(runtime::Region::cut_all());
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect),
                     stack);
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_process_group(c10::intrusive_ptr<c10d::Backend> host) {
  return c10::make_intrusive<ProcessGroup>(std::move(host));
}

void declare_operators() {
  // Never destroyed, as the kernels.
  auto& library = *new torch::Library(torch::Library::DEF, "tpu_dist", std::nullopt, __FILE__, __LINE__);
  for (const char* schema : kSchemas) library.def(schema);
  auto& calls = *new torch::Library(torch::Library::IMPL, "c10d", c10::DispatchKey::BackendSelect, __FILE__, __LINE__);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.starts_with("c10d::")) {
      calls.impl(toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&before_call>());
    }
  }
}

}  // namespace tpu::distributed
