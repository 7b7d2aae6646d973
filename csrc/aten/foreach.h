// _foreach_X: the row of X, applied to each element of lists, as one call. Nothing is written per operator: which row
// it is follows from the name, which argument is which from the two schemas.
#pragma once

#include "aten/meta.h"
#include "aten/plan.h"

namespace tpu::aten {

// One argument of one call of a row.
struct PartArgument {
  struct At {  // in the frame
    uint32_t tensor = 0, number = 0;
  };
  c10::IValue value;
  ops::Arg kind;
  size_t position;       // in the functional schema
  std::optional<At> at;  // none: behind the argument before it
};
using Part = std::vector<PartArgument>;

// "_foreach_add.List" -> the row "add.Tensor"; null where there is none.
const ops::Row* row_of_each(const std::string& functional);

// Lives for ever; null where the arguments of the row are not those of the overload.
const Overload* make_each(const ops::Row& row, const c10::OperatorHandle& handle, Overload::Kind kind);

// The calls of the row that a call of such an overload is.
std::vector<Part> split_each(const Overload& overload, c10::ArrayRef<c10::IValue> arguments);

// As run_meta(). Elements that are alike are asked about once: PyTorch goes through the lists one by one, for most
// operators by a function in Python.
MetaResult run_meta_of_each(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, bool numbers);

}  // namespace tpu::aten
