// Orthogonal polynomials of a degree that comes as a tensor: the recurrence runs until the last element has its degree.
#include <limits>

#include "ops/approximation.h"
#include "ops/families.h"
#include "ops/reducing.h"

namespace tpu::ops {
namespace {

// What a family has of its own. `step` gives degree k + 1 from degree k and the one before.
struct Chebyshev {
  static constexpr double kClosedBeyond = 8;
  static Value step(Builder& b, Value x, Value /*k*/, Value at, Value before) {
    return b.sub(b.mul(b.add(x, x), at), before);
  }
};

Value parity(Builder& b, Value n) {  // -1 of odd degrees
  const Value half = scale(b, n, 0.5);
  return b.select(b.eq(b.floor(half), half), b.full_like(n, 1), b.full_like(n, -1));
}

struct ChebyshevT : Chebyshev {
  static constexpr double kClosedBeyond = 6;
  static Value first(Builder&, Value x) { return x; }
  static Value closed(Builder& b, Value angle, Value n) { return b.cos(b.mul(n, angle)); }
  static Value at_one(Builder& b, Value n) { return b.full_like(n, 1); }
  static Value at_minus_one(Builder& b, Value n) { return parity(b, n); }
};
struct ChebyshevU : Chebyshev {
  static Value first(Builder& b, Value x) { return b.add(x, x); }
  static Value closed(Builder& b, Value angle, Value n) {
    return b.div(b.sin(b.mul(offset(b, n, 1), angle)), b.sin(angle));
  }
  static Value at_one(Builder& b, Value n) { return offset(b, n, 1); }
  static Value at_minus_one(Builder& b, Value n) { return b.mul(parity(b, n), offset(b, n, 1)); }
};
struct ChebyshevV : Chebyshev {
  static Value first(Builder& b, Value x) { return offset(b, b.add(x, x), -1); }
  static Value closed(Builder& b, Value angle, Value n) {
    return b.div(b.cos(b.mul(offset(b, n, 0.5), angle)), b.cos(scale(b, angle, 0.5)));
  }
  static Value at_one(Builder& b, Value n) { return b.full_like(n, 1); }
  static Value at_minus_one(Builder& b, Value n) { return b.mul(parity(b, n), offset(b, b.add(n, n), 1)); }
};
struct ChebyshevW : Chebyshev {
  static Value first(Builder& b, Value x) { return offset(b, b.add(x, x), 1); }
  static Value closed(Builder& b, Value angle, Value n) {
    return b.div(b.sin(b.mul(offset(b, n, 0.5), angle)), b.sin(scale(b, angle, 0.5)));
  }
  static Value at_one(Builder& b, Value n) { return offset(b, b.add(n, n), 1); }
  static Value at_minus_one(Builder& b, Value n) { return parity(b, n); }
};

struct HermiteH {
  static Value first(Builder& b, Value x) { return b.add(x, x); }
  static Value step(Builder& b, Value x, Value k, Value at, Value before) {
    return b.sub(b.mul(b.add(x, x), at), b.mul(b.add(k, k), before));
  }
};
struct HermiteHe {
  static Value first(Builder&, Value x) { return x; }
  static Value step(Builder& b, Value x, Value k, Value at, Value before) {
    return b.sub(b.mul(x, at), b.mul(k, before));
  }
};
struct Laguerre {
  static Value first(Builder& b, Value x) { return b.sub(b.full_like(x, 1), x); }
  static Value step(Builder& b, Value x, Value k, Value at, Value before) {
    const Value slope = b.add(b.add(k, k), b.sub(b.full_like(x, 1), x));
    return b.div(b.sub(b.mul(slope, at), b.mul(k, before)), offset(b, k, 1));
  }
};
struct Legendre {
  static Value first(Builder&, Value x) { return x; }
  static Value step(Builder& b, Value x, Value k, Value at, Value before) {
    const Value slope = b.mul(offset(b, b.add(k, k), 1), x);
    return b.div(b.sub(b.mul(slope, at), b.mul(k, before)), offset(b, k, 1));
  }
  static Value at_one(Builder& b, Value n) { return b.full_like(n, 1); }
  static Value at_minus_one(Builder& b, Value n) { return parity(b, n); }
};

// An integer as PyTorch's loops take it from a float; one that no int64 holds is below zero there.
Value degree(Builder& b, Value n) {
  const Value whole = b.select(b.lt(n, constant(b, n, 0)), b.ceil(n), b.floor(n));
  return b.select(b.lt(b.abs(n), constant(b, n, 0x1p63)), whole, b.full_like(n, -1));
}

// Of elements where `looped`; 1 and x of degrees 0 and 1. One that is NaN stays so, and waits for no degree.
template <typename Family>
Value recurrence(Builder& b, Value x, Value n, Value looped) {
  const Value one = b.full_like(x, 1);
  const auto active = [&](Value k, Value at) {
    return b.and_(b.and_(looped, b.lt(b.convert(k, n.dtype()), n)), b.not_(b.is_nan(at)));
  };
  const Values end = b.while_(
      {b.scalar_int(1, DType::kS64), Family::first(b, x), one},
      [&](const Values& s) {
        const Value some = active(s[0], s[1]);
        return Values{b.reduce(hlo::Reduce::kOr, some, all_dims(some))};
      },
      [&](const Values& s) {
        const Value more = active(s[0], s[1]);
        const Value next = Family::step(b, x, b.broadcast_to(b.convert(s[0], x.dtype()), x.dims()), s[1], s[2]);
        return Values{b.add(s[0], b.scalar_int(1, DType::kS64)), b.select(more, next, s[1]),
                      b.select(more, s[1], s[2])};
      });
  const Value zero = constant(b, n, 0);
  const Value y = b.select(b.eq(n, zero), one, end[1]);
  return b.select(b.lt(n, zero), b.zeros_like(x), y);
}

template <typename Family>
Value at_ends(Builder& b, Value x, Value n, Value y) {
  const Value one = constant(b, x, 1), ends = b.and_(b.eq(b.abs(x), one), b.ge(n, constant(b, n, 0)));
  return b.select(ends, b.select(b.eq(x, one), Family::at_one(b, n), Family::at_minus_one(b, n)), y);
}

template <typename Family>
Value chebyshev_polynomial(Builder& b, Value x, Value n) {
  n = degree(b, n);
  const Value size = b.abs(x), one = constant(b, x, 1);
  const Value closed = b.and_(b.lt(size, one), b.gt(n, constant(b, n, Family::kClosedBeyond)));
  const Value looped = b.and_(b.not_(closed), b.ne(size, one));
  const Value angle = b.unary("chlo.acos", x);
  const Value y = b.select(closed, Family::closed(b, angle, n), recurrence<Family>(b, x, n, looped));
  return at_ends<Family>(b, x, n, y);
}

// On [0, 1] instead of [-1, 1].
template <typename Family>
Value shifted(Builder& b, Value x, Value n) {
  return chebyshev_polynomial<Family>(b, offset(b, b.add(x, x), -1), n);
}

// Beyond a degree where any argument overflows, PyTorch gives up.
template <typename Family>
Value hermite(Builder& b, Value x, Value n) {
  n = degree(b, n);
  const Value most = constant(b, n, n.dtype() == DType::kF64 ? 512 : 128);
  const Value possible = b.le(n, most);
  return b.select(possible, recurrence<Family>(b, x, n, possible),
                  b.full_like(x, std::numeric_limits<double>::quiet_NaN()));
}

Value laguerre(Builder& b, Value x, Value n) {
  n = degree(b, n);
  const Value zero = constant(b, x, 0), at_zero = b.eq(x, zero);
  const Value y = recurrence<Laguerre>(b, x, n, b.not_(at_zero));
  return b.select(b.and_(at_zero, b.ge(n, zero)), constant(b, x, 1), y);
}

Value legendre(Builder& b, Value x, Value n) {
  n = degree(b, n);
  const Value y = recurrence<Legendre>(b, x, n, b.ne(b.abs(x), constant(b, x, 1)));
  return at_ends<Legendre>(b, x, n, y);
}

}  // namespace

void add_polynomial(Table& ops) {
  ops.add("special_chebyshev_polynomial_t", together, lowering<chebyshev_polynomial<ChebyshevT>>);
  ops.add("special_chebyshev_polynomial_u", together, lowering<chebyshev_polynomial<ChebyshevU>>);
  ops.add("special_chebyshev_polynomial_v", together, lowering<chebyshev_polynomial<ChebyshevV>>);
  ops.add("special_chebyshev_polynomial_w", together, lowering<chebyshev_polynomial<ChebyshevW>>);
  ops.add("special_shifted_chebyshev_polynomial_t", together, lowering<shifted<ChebyshevT>>);
  ops.add("special_shifted_chebyshev_polynomial_u", together, lowering<shifted<ChebyshevU>>);
  ops.add("special_shifted_chebyshev_polynomial_v", together, lowering<shifted<ChebyshevV>>);
  ops.add("special_shifted_chebyshev_polynomial_w", together, lowering<shifted<ChebyshevW>>);
  ops.add("special_hermite_polynomial_h", together, lowering<hermite<HermiteH>>);
  ops.add("special_hermite_polynomial_he", together, lowering<hermite<HermiteHe>>);
  ops.add("special_laguerre_polynomial_l", together, lowering<laguerre>);
  ops.add("special_legendre_polynomial_p", together, lowering<legendre>);
}

}  // namespace tpu::ops
