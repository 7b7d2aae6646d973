#include "aten/graph.h"

#include <torch/library.h>

#include "aten/made_of_calls.h"

namespace tpu::aten {
namespace {

// Never called through the dispatcher: it is what messages show.
constexpr const char* kSchema = "compiled_graph(Tensor[] tensors, int[] sizes) -> Tensor[]";

c10::OperatorHandle handle() { return c10::Dispatcher::singleton().findSchemaOrThrow("torch_tpu::compiled_graph", ""); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) { m.def(kSchema); }

Graph::Graph()
    : row_{.name = "compiled_graph"},
      overload_(&row_, handle(), Overload::kFunctional,
                {{ops::Arg::kTensors, false, true, 0}, {ops::Arg::kStatic, false, false, 1}}, 2) {}

torch::jit::Stack Graph::operator()(std::vector<at::Tensor> tensors, const std::vector<int64_t>& sizes,
                                    const std::function<torch::jit::Stack(std::vector<at::Tensor>)>& run) const {
  const at::AutoDispatchBelowADInplaceOrView guard;
  torch::jit::Stack stack{c10::List<at::Tensor>(tensors), sizes};
  tensors.clear();
  run_made_of_calls(overload_, &stack, [&](torch::jit::Stack& inner) {
    std::vector<at::Tensor> dense = inner[0].toTensorVector();
    inner = run(std::move(dense));
    return true;
  });
  return stack;
}

}  // namespace tpu::aten
