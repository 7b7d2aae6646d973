#include "aten/frame.h"

#include <bit>

#include "aten/copy.h"
#include "aten/dtype.h"
#include "aten/growth.h"
#include "aten/plan.h"
#include "aten/record.h"
#include "runtime/region.h"

namespace tpu::aten {
namespace {

enum Tag : uint64_t {
  kDense = 1,
  kView,
  kNumberTensor,
  kNone,
  kList,
  kNumber,
  kIdentity,
  kStatic,
  kGenerator,
  kPadded
};

constexpr uint64_t word(Tag tag, uint64_t a = 0, uint64_t b = 0) { return tag | a << 8 | b << 32; }
uint64_t word(const void* p) { return reinterpret_cast<uintptr_t>(p); }

[[noreturn]] void wrong_device(const at::TensorImpl& t) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, tpu:0 and ",
              t.device(), "!");
  std::abort();
}

NumberArg number_of(const at::TensorImpl& t) {
  const at::Tensor tensor(c10::intrusive_ptr<at::TensorImpl>::reclaim_copy(const_cast<at::TensorImpl*>(&t)));
  return NumberArg::of(at::_local_scalar_dense(tensor));
}

void add_number(const NumberArg& n, bool may_be_identity, Frame& frame) {
  const bool identity = may_be_identity && n.is_identity();
  if (identity) {
    const int64_t which = n.kind == NumberArg::kInt ? n.i : static_cast<int64_t>(n.re);
    frame.words.push_back(word(kIdentity, n.kind, static_cast<uint64_t>(which + 1)));
  } else {
    frame.words.push_back(word(kNumber, n.kind));
    frame.numbers.push_back(n);
  }
}

void read_static(const c10::IValue& v, Frame& frame) {
  auto& w = frame.words;
  if (v.isNone()) {
    w.push_back(word(kNone));
  } else if (v.isInt()) {
    w.push_back(word(kStatic, 1));
    w.push_back(static_cast<uint64_t>(v.toInt()));
  } else if (v.isDouble()) {
    w.push_back(word(kStatic, 2));
    w.push_back(std::bit_cast<uint64_t>(v.toDouble()));
  } else if (v.isBool()) {
    w.push_back(word(kStatic, 3, v.toBool()));
  } else if (v.isComplexDouble()) {
    w.push_back(word(kStatic, 4));
    w.push_back(std::bit_cast<uint64_t>(v.toComplexDouble().real()));
    w.push_back(std::bit_cast<uint64_t>(v.toComplexDouble().imag()));
  } else if (v.isIntList()) {
    const auto list = v.toIntList();
    w.push_back(word(kStatic, 5, list.size()));
    for (const int64_t i : list) w.push_back(static_cast<uint64_t>(i));
  } else if (v.isDoubleList()) {
    const auto list = v.toDoubleList();
    w.push_back(word(kStatic, 6, list.size()));
    for (const double d : list) w.push_back(std::bit_cast<uint64_t>(d));
  } else if (v.isBoolList()) {
    const auto list = v.toBoolList();
    w.push_back(word(kStatic, 7, list.size()));
    for (const bool b : list) w.push_back(b);
  } else if (v.isString()) {
    const std::string& s = v.toStringRef();
    w.push_back(word(kStatic, 8, s.size()));
    for (const char c : s) w.push_back(static_cast<uint64_t>(c));
  } else if (v.isDevice() || v.isGenerator()) {
    TORCH_CHECK(!v.isDevice() || v.toDevice().index() <= 0, "device tpu:", static_cast<int>(v.toDevice().index()),
                " does not exist: there is one device a process, tpu:0");
    w.push_back(word(kStatic, 9));
  } else if (v.isList()) {
    const auto list = v.toListRef();
    w.push_back(word(kStatic, 10, list.size()));
    for (const c10::IValue& e : list) read_static(e, frame);
  } else {
    TORCH_CHECK_TYPE(false, "device tpu: no operator takes an argument of type ", v.tagKind());
  }
}

constexpr c10::DispatchKeySet kBits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

// PyTorch resolves conjugate and negative views before most operators, but some (clone, mm, ...) get to see them.
at::Tensor resolved(at::Tensor t) {
  const bool conj = t.is_conj(), neg = t.is_neg();
  if (conj) t = at::_conj(t);
  if (neg) t = at::_neg_view(t);
  if (conj) t = at::conj_physical(t);
  return neg ? at::neg(t) : t;
}

void read_tensor_or_number(const at::Tensor& t, bool written, Frame& frame) {
  at::TensorImpl& impl = *t.unsafeGetTensorImpl();
  if (!t.defined()) {
    frame.words.push_back(word(kNone));
  } else if (impl.device_type() == c10::DeviceType::PrivateUse1 && impl.key_set().has_any(kBits)) [[unlikely]] {
    TORCH_CHECK_NOT_IMPLEMENTED(!written,
                                "device tpu: this operator cannot write through a conjugate or negative view");
    frame.resolved.push_back(resolved(t));
    read_tensor(*frame.resolved.back().unsafeGetTensorImpl(), frame);
  } else if (impl.device_type() == c10::DeviceType::PrivateUse1) {
    read_tensor(impl, frame);
  } else if (impl.is_cpu() && impl.dim() == 0) {
    frame.words.push_back(
        word(kNumberTensor, static_cast<uint64_t>(c10::typeMetaToScalarType(impl.dtype())), impl.is_wrapped_number()));
    frame.numbers.push_back(number_of(impl));
  } else {
    wrong_device(impl);
  }
}

}  // namespace

std::pair<uint64_t, uint64_t> NumberArg::bits(DType travels_as) const {
  const double real = kind == kInt ? static_cast<double>(i) : re;
  const auto f32 = [](double v) { return std::bit_cast<uint32_t>(static_cast<float>(v)); };
  switch (travels_as) {
    case DType::kF64: return {std::bit_cast<uint64_t>(real), 0};
    case DType::kF32: return {f32(real), 0};
    case DType::kC64: return {f32(real) | uint64_t{f32(kind == kComplex ? im : 0)} << 32, 0};
    case DType::kC128: return {std::bit_cast<uint64_t>(real), std::bit_cast<uint64_t>(kind == kComplex ? im : 0.0)};
    default: return {static_cast<uint64_t>(kind == kInt ? i : static_cast<int64_t>(re)), 0};
  }
}

NumberArg NumberArg::of(const at::Scalar& s) {
  NumberArg n;
  if (s.isComplex()) {
    const auto c = s.toComplexDouble();
    n = {kComplex, 0, c.real(), c.imag()};
  } else if (s.isFloatingPoint()) {
    n = {kFloat, 0, s.toDouble(), 0};
  } else if (s.isBoolean()) {
    n = {kInt, s.toBool(), 0, 0};
  } else {
    n = {kInt, s.type() == at::kUInt64 ? static_cast<int64_t>(s.toUInt64()) : s.toLong(), 0, 0};
  }
  return n;
}

std::pair<uint64_t, uint64_t> SeenTensors::add(const Cell* cell, const runtime::Value* value,
                                               const c10::SmallVectorImpl<TensorArg>& tensors) {
  constexpr size_t kFew = 16;
  const size_t n = tensors.size();
  std::pair<uint64_t, uint64_t> same{0, 0};
  if (n < kFew) {
    for (size_t i = 0; i < n && (same.first == 0 || same.second == 0); ++i) {
      const Cell* other = tensors[i].cell;
      if (same.first == 0 && other == cell) same.first = i + 1;
      if (same.second == 0 && value != nullptr && other->value.get() == value) same.second = i + 1;
    }
    return same;
  }
  if (n * 4 >= slots_.size()) {
    slots_.assign(std::bit_ceil(n * 8), {});
    for (size_t i = 0; i < n; ++i) {
      first(tensors[i].cell, i + 1);
      if (tensors[i].cell->value) first(tensors[i].cell->value.get(), i + 1);
    }
  }
  const auto before = [&](const void* what) {
    const uint64_t found = first(what, n + 1);
    return found == n + 1 ? 0 : found;
  };
  return {before(cell), value != nullptr ? before(value) : 0};
}

uint64_t SeenTensors::first(const void* what, uint64_t number) {
  size_t at = mix(0, reinterpret_cast<uintptr_t>(what)) & (slots_.size() - 1);
  while (slots_[at].second != 0 && slots_[at].first != what) at = (at + 1) & (slots_.size() - 1);
  if (slots_[at].second == 0) slots_[at] = {what, number};
  return slots_[at].second;
}

void read_tensor(at::TensorImpl& impl, Frame& frame) {
  Cell& cell = cell_of(impl);
  const DType dtype = to_dtype(c10::typeMetaToScalarType(impl.dtype()));
  const at::IntArrayRef sizes = impl.sizes();
  if (!cell.value) {  // undefined contents may take any form
    const hlo::Type* type = cell.type;
    if (type == nullptr || type->dtype != dtype) {
      cell.type = natural_type(dtype, sizes, impl.strides(), impl.storage_offset(), impl.unsafe_storage().nbytes());
    }
  }
  TensorArg arg{&impl, &cell, nullptr, static_cast<uint32_t>(frame.starts.size())};
  const bool padded = cell.value && cell.value->type != cell.type;
  if (padded && !read_padded(impl, cell, frame, arg)) [[unlikely]] {
    for (const TensorArg& t : frame.tensors) frame.stale = frame.stale || t.cell == &cell;
    remove_padding(cell);
  }
  const hlo::Type* type = cell.type;
  // Which earlier operand has the same cell, or another cell with the same value: part of the signature, since writes
  // chain through a cell, and a launch may not be given one buffer twice.
  const auto [same_cell, same_value] = frame.seen.add(&cell, cell.value.get(), frame.tensors);
  const uint64_t undefined = cell.value ? 0 : 1;
  if (arg.view != nullptr) [[unlikely]] {
    const bool whole = arg.physical != nullptr;
    frame.words.push_back(word(whole ? kPadded : kView, same_cell << 1, same_value));
    frame.words.push_back(word(static_cast<const void*>(arg.view)));
    if (whole) {
      frame.words.push_back(word(static_cast<const void*>(arg.physical)) | (dynamism() == Dynamism::kAll));
      frame.words.push_back(word(static_cast<const void*>(arg.whole)));
    }
    if (frame.crops) {
      frame.words.push_back(word(static_cast<const void*>(cell.type)));
      frame.words.push_back(word(static_cast<const void*>(arg.cropped)));
    }
    // The view has strides of the padded value. Those of dimensions of size 1, which results may take over, do not
    // follow from the others.
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 1) frame.words.push_back(static_cast<uint64_t>(impl.strides()[d]));
    }
    frame.tensors.push_back(arg);
    return;
  }
  const bool dense = type->dtype == dtype && impl.storage_offset() == 0 && impl.is_contiguous() &&
                     sizes.equals(at::IntArrayRef(type->dims));
  if (!dense) {
    int64_t starts[hlo::kMaxDigits];
    arg.view = hlo::classify(
        type, dtype, {{sizes.data(), sizes.size()}, {impl.strides().data(), sizes.size()}, impl.storage_offset()},
        starts);
    frame.starts.append(starts, starts + arg.view->num_starts);
  }
  frame.words.push_back(word(dense ? kDense : kView, undefined | same_cell << 1, same_value));
  frame.words.push_back(dense ? word(static_cast<const void*>(type)) : word(static_cast<const void*>(arg.view)));
  frame.tensors.push_back(arg);
}

namespace {

// Numbers that the size of a result depends on. Beyond what a double says exactly they are told apart by value.
void add_sizes(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, Frame& frame) {
  c10::SmallVector<double, 4> numbers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (overload.args[i].kind != ops::Arg::kScalar || arguments[i].isNone()) continue;
    const c10::Scalar s = arguments[i].toScalar();
    numbers.push_back(s.isComplex() ? s.toComplexDouble().real() : s.toDouble());
    if (!(std::abs(numbers.back()) < 0x1p53)) {
      frame.words.push_back(s.isIntegral(true) ? static_cast<uint64_t>(s.toLong())
                                               : std::bit_cast<uint64_t>(numbers.back()));
    }
  }
  for (const int64_t size : overload.row->sizes({numbers.data(), numbers.size()})) {
    frame.words.push_back(static_cast<uint64_t>(size));
  }
}

// What a plan depends on beside its arguments.
uint64_t setting(const Overload& overload) {
  const bool debug = runtime::Region::current().mode() == runtime::Mode::kDebug;
  // A decomposition, which has no lowering, may multiply too.
  const bool multiplies = overload.row->trait.multiplies || overload.row->emit == nullptr;
  const auto precision =
      multiplies ? at::globalContext().float32MatmulPrecision() : at::Float32MatmulPrecision::HIGHEST;
  return static_cast<uint64_t>(debug) | static_cast<uint64_t>(precision) << 1;
}

}  // namespace

bool Frame::debug() const { return (words[1] & 1) != 0; }

hlo::Precision Frame::precision() const {
  constexpr hlo::Precision kPrecisions[] = {hlo::Precision::kHighest, hlo::Precision::kHigh, hlo::Precision::kDefault};
  return kPrecisions[words[1] >> 1];
}

namespace {

void read_once(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, Frame& frame) {
  frame.crops = !overload.row->apart;
  frame.words.push_back(static_cast<uint64_t>(at::get_default_dtype_as_scalartype()));
  frame.words.push_back(setting(overload));
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& v = arguments[i];
    const ArgSpec& spec = overload.args[i];
    switch (spec.kind) {
      case ops::Arg::kTensor:
      case ops::Arg::kOptionalTensor:
      case ops::Arg::kLike:
        if (v.isNone()) {
          frame.words.push_back(word(kNone));
        } else {
          read_tensor_or_number(v.toTensor(), spec.written, frame);
        }
        break;
      case ops::Arg::kTensors:
      case ops::Arg::kOptionalTensors: {
        if (v.isNone()) {
          frame.words.push_back(word(kNone));
          break;
        }
        const auto list = v.toListRef();
        frame.words.push_back(word(kList, list.size()));
        for (const c10::IValue& e : list) {
          if (e.isNone()) {
            frame.words.push_back(word(kNone));
          } else if (spec.kind == ops::Arg::kOptionalTensors && e.toTensor().defined() && e.toTensor().is_cpu()) {
            frame.uploaded.push_back(upload(e.toTensor()));  // as on other devices, CPU indices are brought over
            read_tensor(*frame.uploaded.back().unsafeGetTensorImpl(), frame);
          } else {
            read_tensor_or_number(e.toTensor(), spec.written, frame);
          }
        }
        break;
      }
      case ops::Arg::kScalar:
      case ops::Arg::kFactor:
        if (v.isNone()) {
          frame.words.push_back(word(kNone));
        } else {
          add_number(NumberArg::of(v.toScalar()), spec.kind == ops::Arg::kFactor, frame);
          // bool and int promote differently
          if (v.isBool()) frame.words.push_back(word(kStatic, 3));
        }
        break;
      case ops::Arg::kNumbers: {
        const auto add = [&](const c10::IValue& e) {
          add_number(NumberArg::of(e.toScalar()), false, frame);
          if (e.isBool()) frame.words.push_back(word(kStatic, 3));
        };
        if (!v.isList()) {
          add(v);
          break;
        }
        frame.words.push_back(word(kList, v.toListRef().size()));
        for (const c10::IValue& e : v.toListRef()) add(e);
        break;
      }
      case ops::Arg::kPosition:
        if (v.isNone()) {
          frame.words.push_back(word(kNone));
        } else {
          add_number(NumberArg::of(v.toScalar()), false, frame);
        }
        break;
      case ops::Arg::kRandom:
        frame.words.push_back(word(kGenerator));
        if (!v.isNone()) frame.generator = v.toGenerator().unsafeGetGeneratorImpl();
        break;
      case ops::Arg::kStatic:
      case ops::Arg::kDType:
      case ops::Arg::kIgnore: read_static(v, frame); break;
      case ops::Arg::kDrawn: break;
    }
  }
  if (overload.row->sizes != nullptr) add_sizes(overload, arguments, frame);
  if (overload.row->joins) read_growth(frame);
}

}  // namespace

void read_frame(const Overload& overload, c10::ArrayRef<c10::IValue> arguments, Frame& frame) {
  read_once(overload, arguments, frame);
  if (!frame.stale) [[likely]]
    return;
  frame = Frame();
  read_once(overload, arguments, frame);
}

}  // namespace tpu::aten
