#include "ops/families.h"
#include "ops/growing.h"
#include "ops/reducing.h"
#include "ops/refusing.h"

namespace tpu::ops {
namespace {

using hlo::Reduce;

Value sum(Builder& b, Value x, const Dims& dims) { return b.reduce(Reduce::kAdd, x, dims); }

Value mean(Builder& b, Value x, const Dims& dims) {
  return b.div(sum(b, x, dims), b.scalar(static_cast<double>(count(x, dims)), x.dtype()));
}

Value fit(Builder& b, const Call& call, Value v, size_t result = 0) { return b.reshape(v, call.results[result]->dims); }

Value count_nonzero(Builder& b, Value x, const Dims& dims) {
  const bool narrow = count(x, dims) <= std::numeric_limits<int32_t>::max();
  return sum(b, b.convert(b.convert(x, DType::kBool), narrow ? DType::kS32 : DType::kS64), dims);
}

// --- variance
// ---------------------------------------------------------------------------------------------------------

struct Moments {
  Value variance, mean;
};

// Two passes: the mean is taken away before anything is squared.
Moments moments(Builder& b, const Call& call, Value x, const optional<Dims>& dim, const optional<Factor>& correction) {
  const DType part = call.compute;
  x = b.convert(x, is_complex(x.dtype()) ? complex_of(part) : part);
  const Dims dims = reduced_dims(x, dim);
  const Value center = mean(b, x, dims);
  const Value off = b.sub(x, spread(b, center, x, dims));
  const Value re = b.real(off);
  Value squares = b.mul(re, re);
  if (is_complex(x.dtype())) squares = b.add(squares, b.mul(b.imag(off), b.imag(off)));
  const double n = static_cast<double>(count(x, dims));
  const bool known = !correction || correction->is(1) || correction->is(0);
  const double taken = !correction || correction->is(1) ? 1 : 0;
  const Value divisor = known ? b.scalar(std::max(n - taken, 0.0), part)
                              : b.max(b.sub(b.scalar(n, part), *correction), b.scalar(0, part));
  return {b.div(sum(b, squares, dims), divisor), center};
}

// --- norms
// ------------------------------------------------------------------------------------------------------------

// |x| of the real dtype that the norm is computed in.
Value magnitude(Builder& b, const Call& call, Value x) {
  if (!is_complex(x.dtype())) return b.abs(b.convert(x, call.compute));
  return b.abs(b.convert(x, complex_of(call.compute)));
}

Value norm(Builder& b, const Call& call, Value x, double p, const optional<Dims>& dim) {
  const Dims dims = reduced_dims(x, dim);
  const auto root = [&](Value v) { return fit(b, call, v); };
  if (p == 0) return root(sum(b, b.convert(b.convert(x, DType::kBool), call.compute), dims));
  if (p == 2 && is_complex(x.dtype())) {
    x = b.convert(x, complex_of(call.compute));
    const Value re = b.real(x), im = b.imag(x);
    return root(b.sqrt(sum(b, b.add(b.mul(re, re), b.mul(im, im)), dims)));
  }
  const Value a = magnitude(b, call, x);
  if (p == std::numeric_limits<double>::infinity()) {
    return root(
        b.reduce({a}, {b.scalar(0, a.dtype())}, dims, [&](const Values& v) { return Values{b.max(v[0], v[1])}; })[0]);
  }
  if (p == -std::numeric_limits<double>::infinity()) return root(b.reduce(Reduce::kMin, a, dims));
  if (p == 1) return root(sum(b, a, dims));
  if (p == 2) return root(b.sqrt(sum(b, b.mul(a, a), dims)));
  const Value powers = b.pow(a, b.scalar(p, a.dtype()));
  return root(b.pow(sum(b, powers, dims), b.scalar(1 / p, a.dtype())));
}

double order(const optional<Number>& p) { return p ? p->to_double() : 2; }

void add_sums(Table& ops) {
  ops.add("sum", reduction, [](Builder& b, Value x, optional<DType>) { return sum(b, x, all_dims(x)); })
      .in_result_dtype()
      .grows_by(grows_reduction<Reducing::kSum>);
  ops.add("sum.dim_IntList", reduction,
          [](Builder& b, const Call& call, Value x, optional<Dims> dim, bool, optional<DType>) {
            return fit(b, call, sum(b, x, reduced_dims(x, dim)));
          })
      .in_result_dtype()
      .grows_by(grows_reduction<Reducing::kSum>);
  ops.add("mean", reduction, [](Builder& b, Value x, optional<DType>) { return mean(b, x, all_dims(x)); })
      .in_result_dtype()
      .grows_by(grows_reduction<Reducing::kMean>);
  ops.add("mean.dim", reduction,
          [](Builder& b, const Call& call, Value x, optional<Dims> dim, bool, optional<DType>) {
            return fit(b, call, mean(b, x, reduced_dims(x, dim)));
          })
      .in_result_dtype()
      .grows_by(grows_reduction<Reducing::kMean>);
  ops.add("nansum", reduction,
          [](Builder& b, const Call& call, Value x, optional<Dims> dim, bool, optional<DType>) {
            return fit(b, call, sum(b, b.select(is_nan(b, x), b.zeros_like(x), x), reduced_dims(x, dim)));
          })
      .refuses([](const Call& call) {
        return is_ordered(call).ok() ? Status() : invalid("nansum does not support complex inputs");
      })
      .in_result_dtype();
  ops.add("prod", reduction,
          [](Builder& b, Value x, optional<DType>) { return b.reduce(Reduce::kMul, x, all_dims(x)); })
      .in_result_dtype()
      .grows_by(grows_reduction<Reducing::kProduct>);
  ops.add("prod.dim_int", reduction,
          [](Builder& b, const Call& call, Value x, int64_t dim, bool, optional<DType>) {
            return fit(b, call, b.reduce(Reduce::kMul, x, reduced_dims(x, dim)));
          })
      .in_result_dtype()
      .grows_by(grows_reduction<Reducing::kProduct>);
  ops.add("trace", reduction,
          [](Builder& b, Value x) {
            const Value diagonal = b.eq(b.iota(DType::kS32, x.dims(), 0), b.iota(DType::kS32, x.dims(), 1));
            return sum(b, b.select(diagonal, x, b.zeros_like(x)), {0, 1});
          })
      .in_result_dtype();
  ops.add("count_nonzero", plain,
          [](Builder& b, Value x, optional<int64_t> dim) {
            return count_nonzero(b, x, dim ? reduced_dims(x, *dim) : all_dims(x));
          })
      .grows_by(grows_reduction<Reducing::kCount>);
  ops.add("count_nonzero.dim_IntList", plain,
          [](Builder& b, Value x, Dims dim) { return count_nonzero(b, x, reduced_dims(x, dim)); })
      .grows_by(grows_reduction<Reducing::kCount>);
}

template <Reduce how>
void add_extremum(Table& ops, const char* all, const char* dim, const char* dims, const char* arg) {
  const auto some = [](const Call& call) { return has_elements(call); };
  constexpr Reducing kValue = how == Reduce::kMax ? Reducing::kMax : Reducing::kMin;
  constexpr Reducing kPosition = how == Reduce::kMax ? Reducing::kArgMax : Reducing::kArgMin;
  ops.add(all, plain, [](Builder& b, Value x) { return b.reduce(how, x, all_dims(x)); })
      .refuses(some)
      .grows_by(grows_reduction<kValue>);
  ops.add(dim, plain,
          [](Builder& b, const Call& call, Value x, int64_t dim, bool) -> Values {
            const Extremum e = extremum(b, how, at_least_1d(b, x), axis(dim, x.rank()));
            return {fit(b, call, e.value), fit(b, call, e.index, 1)};
          })
      .refuses(some)
      .grows_by(grows_reduction<kValue>);
  ops.add(dims, plain,
          [](Builder& b, const Call& call, Value x, Dims dim, bool) {
            return fit(b, call, b.reduce(how, x, reduced_dims(x, dim)));
          })
      .refuses(some)
      .grows_by(grows_reduction<kValue>);
  ops.add(arg, plain,
          [](Builder& b, const Call& call, Value x, optional<int64_t> dim, bool) {
            const Value line = dim ? at_least_1d(b, x) : b.flatten(x);
            return fit(b, call, extremum(b, how, line, dim ? axis(*dim, x.rank()) : 0).index);
          })
      .refuses([](const Call& call) {
        TPU_RETURN_IF_ERROR(is_not_bool(call));
        return has_elements(call);
      })
      .grows_by(grows_reduction<kPosition>);
}

template <Reduce how>
void add_truth(Table& ops, const char* all, const char* dim, const char* dims) {
  ops.add(all, plain, [](Builder& b, Value x) { return b.reduce(how, b.convert(x, DType::kBool), all_dims(x)); })
      .grows_by(grows_reduction < how == Reduce::kAnd ? Reducing::kAll : Reducing::kAny >);
  ops.add(dim, plain,
          [](Builder& b, const Call& call, Value x, int64_t dim, bool) {
            return fit(b, call, b.reduce(how, b.convert(x, DType::kBool), reduced_dims(x, dim)));
          })
      .grows_by(grows_reduction < how == Reduce::kAnd ? Reducing::kAll : Reducing::kAny >);
  ops.add(dims, plain,
          [](Builder& b, const Call& call, Value x, optional<Dims> dim, bool) {
            // Here an empty list means no dims.
            const Dims over = dim && dim->empty() ? Dims{} : reduced_dims(x, dim);
            return fit(b, call, b.reduce(how, b.convert(x, DType::kBool), over));
          })
      .grows_by(grows_reduction < how == Reduce::kAnd ? Reducing::kAll : Reducing::kAny >);
}

void add_moments(Table& ops) {
  const auto only_inexact = [](const Call& call) {
    return is_inexact(call).ok() ? Status() : invalid("std and var only support floating point and complex dtypes");
  };
  ops.add("var.correction", plain,
          [](Builder& b, const Call& call, Value x, optional<Dims> dim, optional<Factor> correction, bool) {
            return fit(b, call, moments(b, call, x, dim, correction).variance);
          })
      .refuses(only_inexact);
  ops.add("std.correction", plain,
          [](Builder& b, const Call& call, Value x, optional<Dims> dim, optional<Factor> correction, bool) {
            return fit(b, call, b.sqrt(moments(b, call, x, dim, correction).variance));
          })
      .refuses(only_inexact);
  ops.add("var_mean.correction", plain,
          [](Builder& b, const Call& call, Value x, optional<Dims> dim, optional<Factor> correction, bool) -> Values {
            const Moments m = moments(b, call, x, dim, correction);
            return {fit(b, call, m.variance), fit(b, call, m.mean, 1)};
          })
      .refuses(only_inexact);
  ops.add("std_mean.correction", plain,
          [](Builder& b, const Call& call, Value x, optional<Dims> dim, optional<Factor> correction, bool) -> Values {
            const Moments m = moments(b, call, x, dim, correction);
            return {fit(b, call, b.sqrt(m.variance)), fit(b, call, m.mean, 1)};
          })
      .refuses(only_inexact);
}

// PyTorch takes floats as float64, and integers as int64.
Value hash(Builder& b, Value x, const Dims& dims) {
  const Value bits = is_float(x.dtype()) ? b.bitcast(b.convert(x, DType::kF64), DType::kU64)
                                         : b.bitcast(b.convert(x, DType::kS64), DType::kU64);
  return b.reduce({bits}, {b.scalar_int(0, DType::kU64)}, dims,
                  [&](const Values& v) { return Values{b.xor_(v[0], v[1])}; })[0];
}

void add_norms(Table& ops) {
  ops.add("linalg_vector_norm", plain,
          [](Builder& b, const Call& call, Value x, Number p, optional<Dims> dim, bool, optional<DType>) {
            return norm(b, call, x, p.to_double(), dim);
          });
  ops.add("norm.Scalar", plain,
          [](Builder& b, const Call& call, Value x, Number p) { return norm(b, call, x, p.to_double(), {}); });
  ops.add("norm.ScalarOpt_dtype", plain, [](Builder& b, const Call& call, Value x, optional<Number> p, DType) {
    return norm(b, call, x, order(p), {});
  });
  ops.add("norm.ScalarOpt_dim", plain, [](Builder& b, const Call& call, Value x, optional<Number> p, Dims dim, bool) {
    return norm(b, call, x, order(p), dim);
  });
  ops.add("norm.ScalarOpt_dim_dtype", plain,
          [](Builder& b, const Call& call, Value x, optional<Number> p, Dims dim, bool, DType) {
            return norm(b, call, x, order(p), dim);
          });
}

}  // namespace

void add_reduction(Table& ops) {
  add_sums(ops);
  add_extremum<Reduce::kMax>(ops, "max", "max.dim", "amax", "argmax");
  add_extremum<Reduce::kMin>(ops, "min", "min.dim", "amin", "argmin");
  ops.add("aminmax", plain,
          [](Builder& b, const Call& call, Value x, optional<int64_t> dim, bool) -> Values {
            const Dims dims = dim ? reduced_dims(x, *dim) : all_dims(x);
            return {fit(b, call, b.reduce(Reduce::kMin, x, dims)), fit(b, call, b.reduce(Reduce::kMax, x, dims), 1)};
          })
      .refuses(is_ordered);
  add_truth<Reduce::kAnd>(ops, "all", "all.dim", "all.dims");
  add_truth<Reduce::kOr>(ops, "any", "any.dim", "any.dims");
  add_moments(ops);
  add_norms(ops);
  ops.add("hash_tensor", plain,
          [](Builder& b, const Call& call, Value x, Dims dim, bool, int64_t) {
            return fit(b, call, hash(b, x, reduced_dims(x, dim)));
          })
      .refuses(is_ordered);
  ops.add("logsumexp", reduction,
          [](Builder& b, const Call& call, Value x, Dims dim, bool) {
            const Dims dims = reduced_dims(x, dim);
            // An infinite maximum is left where it is: inf - inf would be NaN.
            Value top = b.reduce(Reduce::kMax, b.real(x), dims);
            top = b.select(b.is_finite(top), top, b.zeros_like(top));
            top = b.convert(top, x.dtype());
            return fit(b, call, b.add(b.log(sum(b, b.exp(b.sub(x, spread(b, top, x, dims))), dims)), top));
          })
      .in_result_dtype();
}

}  // namespace tpu::ops
