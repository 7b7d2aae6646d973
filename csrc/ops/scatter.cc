// Element by element along one dimension: gather and the scatters.
#include "ops/bounds.h"
#include "ops/families.h"
#include "ops/indexing.h"

namespace tpu::ops {
namespace {

Value as_vector(Builder& b, Value v) { return v.rank() == 0 ? b.reshape(v, {1}) : v; }

Value check_size(Builder& b, Value x, int64_t dim, Value index) {
  return bounds(b, index, x.rank() == 0 ? 1 : x.dim(axis(dim, x.rank())));
}

// What is written may be one value for all.
Value updates_of(Builder& b, Value src, Value index) {
  return src.rank() == 0 ? b.broadcast_to(src, index.dims()) : src;
}

Value scatter(Builder& b, Value x, int64_t dim, Value index, Value src) {
  const int64_t d = axis(dim, x.rank());
  const Value v = as_vector(b, x), at = positions(b, as_vector(b, index), v.dim(d));
  return b.reshape(put_along(b, v, at, updates_of(b, b.convert(src, x.dtype()), at), d, replace()), x.dims());
}

Value scatter_reduce(Builder& b, Value x, int64_t dim, Value index, Value src, const std::string& how,
                     bool include_self) {
  const int64_t d = axis(dim, x.rank());
  const Value v = as_vector(b, x), at = positions(b, as_vector(b, index), v.dim(d));
  const Value updates = updates_of(b, src, at);
  const Value used = b.slice(updates, Dims(updates.dims().size(), 0), at.dims());
  const Value reduced = reduce_at(
      b, v, used, how, include_self,
      [&](Value target, Value values, const Builder::Body& body) { return put_along(b, target, at, values, d, body); });
  return b.reshape(reduced, x.dims());
}

}  // namespace

void add_scatter(Table& ops) {
  ops.add("gather", plain,
          [](Builder& b, Value x, int64_t dim, Value index, bool) {
            const int64_t d = axis(dim, x.rank());
            const Value v = as_vector(b, x);
            return b.reshape(take_along(b, v, positions(b, as_vector(b, index), v.dim(d)), d), index.dims());
          })
      .checks([](Builder& b, Value x, int64_t dim, Value index, bool) { return check_size(b, x, dim, index); });

  ops.add("scatter.src", plain,
          [](Builder& b, Value x, int64_t dim, Value index, Value src) { return scatter(b, x, dim, index, src); })
      .checks([](Builder& b, Value x, int64_t dim, Value index, Value) { return check_size(b, x, dim, index); });
  ops.add("scatter.value", plain,
          [](Builder& b, Value x, int64_t dim, Value index, Scalar value) { return scatter(b, x, dim, index, value); })
      .checks([](Builder& b, Value x, int64_t dim, Value index, Scalar) { return check_size(b, x, dim, index); });
  ops.add("scatter.reduce", plain,
          [](Builder& b, Value x, int64_t dim, Value index, Value src, std::string how) {
            return scatter_reduce(b, x, dim, index, src, how, true);
          })
      .checks([](Builder& b, Value x, int64_t dim, Value index, Value, std::string) {
        return check_size(b, x, dim, index);
      });
  ops.add("scatter.value_reduce", plain,
          [](Builder& b, Value x, int64_t dim, Value index, Scalar value, std::string how) {
            return scatter_reduce(b, x, dim, index, value, how, true);
          })
      .checks([](Builder& b, Value x, int64_t dim, Value index, Scalar, std::string) {
        return check_size(b, x, dim, index);
      });
  ops.add("scatter_add", plain,
          [](Builder& b, Value x, int64_t dim, Value index, Value src) {
            return scatter_reduce(b, x, dim, index, src, "sum", true);
          })
      .checks([](Builder& b, Value x, int64_t dim, Value index, Value) { return check_size(b, x, dim, index); });
  ops.add("scatter_reduce.two", plain,
          [](Builder& b, Value x, int64_t dim, Value index, Value src, std::string how, bool include_self) {
            return scatter_reduce(b, x, dim, index, src, how, include_self);
          })
      .checks([](Builder& b, Value x, int64_t dim, Value index, Value, std::string, bool) {
        return check_size(b, x, dim, index);
      });
}

}  // namespace tpu::ops
