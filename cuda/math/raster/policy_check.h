// The interface of a policy (math/raster/policy.h) as code: check_cpu_policy and check_gpu_policy fail to compile if a member is missing
// or has another type, with a message that explains it. The rasterizer applies them to every policy.
#pragma once

#include "math/raster/policy.h"

namespace luxel {
namespace policy_detail {

// What type_traits and utility have, which NVRTC lacks.
template <typename...> struct MakeVoid {
  using Type = void;
};
template <typename A, typename B> struct Same {
  static constexpr bool value = false;
};
template <typename A> struct Same<A, A> {
  static constexpr bool value = true;
};
template <typename X> struct PlainOf {
  using Type = X;
};
template <typename X> struct PlainOf<const X> : PlainOf<X> {};
template <typename X> struct PlainOf<X&> : PlainOf<X> {};
template <typename X> using Plain = typename PlainOf<X>::Type;  // without reference and const
template <typename X> LUXEL_HD X&& declared();

template <typename Result, template <typename...> class Op, typename Void, typename... A> struct Gives {
  static constexpr bool value = false;
};
template <typename Result, template <typename...> class Op, typename... A>
struct Gives<Result, Op, typename MakeVoid<Op<A...>>::Type, A...> : Same<Result, Op<A...>> {};
// Whether Op<A...> is well formed and is Result.
template <typename Result, template <typename...> class Op, typename... A>
constexpr bool gives = Gives<Result, Op, void, A...>::value;

template <typename X> LUXEL_HD const X& value();  // a value of type X for unevaluated expressions; place: an lvalue
template <typename X> LUXEL_HD X& place();

template <typename B> using BoundsNumber = typename B::Number;
template <typename B, typename T> using BoundsOf = decltype(B::of(declared<const T*>()));
template <typename B> using BoundsLeft = decltype(value<B>().left());
template <typename B> using BoundsRight = decltype(value<B>().right());
template <typename B> using BoundsTop = decltype(value<B>().top());
template <typename B> using BoundsBottom = decltype(value<B>().bottom());
template <typename B, typename T> using BoundsBand = decltype(value<B>().band(T(), T(), place<T>(), place<T>()));
template <typename P> using RowWidth = decltype(P::kRow);
template <typename P> using PieceLength = decltype(P::kPiece);
template <typename P> using MultiEdge = decltype(P::kMultiEdge);
template <typename P> using HasAbsolute = decltype(P::kHasAbsolute);
template <typename P> using PixelDepth = decltype(P::kPixelDepth);

template <typename P, typename T> using Load = decltype(P::load(declared<const T*>()));
template <typename P> using CentreX = Plain<decltype(value<P>().x)>;
template <typename P> using CentreY = Plain<decltype(value<P>().y)>;
template <typename P> using Opacity = Plain<decltype(value<P>().opacity)>;
template <typename P> using Depth = Plain<decltype(value<P>().depth)>;
template <typename P, typename V, typename T> using At = decltype(value<P>().at(declared<V>(), T()));
template <typename A> using Falloff = Plain<decltype(value<A>().falloff)>;
template <typename A> using Valid = Plain<decltype(value<A>().valid)>;
template <typename P, typename V> using CpuGradient = typename P::template Gradient<V, P::kHasAbsolute>;
template <typename G, typename P, typename A, typename V>
using GradientAdd = decltype(place<G>().add(value<P>(), value<A>(), declared<V>()));
template <typename G, typename P, typename Sum, typename T>
using GradientStore = decltype(value<G>().store(value<P>(), declared<Sum>(), declared<T*>()));

template <typename A> using DepthFactor = Plain<decltype(value<A>().depth_factor)>;
template <typename G, typename P, typename A, typename V>
using GradientAddDepth = decltype(place<G>().add_depth(value<P>(), value<A>(), declared<V>()));
template <typename S> using CoverageDepthFactor = decltype(value<S>().depth_factor());
template <typename S, typename Coverage> using SumsAddDepth = decltype(place<S>().add_depth(value<Coverage>(), 0.0f, 0.0f));
template <typename P> using Pack = decltype(P::pack(declared<const float*>()));
template <typename P> using NullSplat = decltype(P::null_splat());
template <typename P> using DepthOf = decltype(P::depth_of(declared<const float*>()));
template <typename K> using PackedX = Plain<decltype(value<K>().x)>;
template <typename K> using PackedY = Plain<decltype(value<K>().y)>;
template <typename K> using Highest = decltype(value<K>().highest());
template <typename K> using Edges = Plain<decltype(value<K>().edges)>;
template <typename S> using Hits = decltype(value<S>().hits(0.0f));
template <typename S> using Alpha = decltype(value<S>().alpha());
template <typename C, typename K> using ColumnAt = decltype(value<C>().at(value<K>(), 0.0f));
template <typename P> using LookAt = decltype(P::look(value<typename P::Packed>(), 0.0f, 0.0f));
template <typename P> using EdgeColumn = typename P::template Column<4>;
template <typename C, typename K> using EdgeCoverage = decltype(value<C>().coverage(value<K>(), value<C>().reach(value<K>(), 0.0f)));
template <typename C, typename K> using EdgeLook = decltype(value<C>().look(value<K>(), 0.0f));
template <typename P> using SimpleSums = typename P::template Sums<P::kHasAbsolute>;
template <typename P> using EdgeSums = typename P::template Sums<P::kHasAbsolute, 4>;
template <typename S, typename K, typename C, typename Coverage>
using SumsAdd = decltype(place<S>().add(value<K>(), value<C>(), value<Coverage>(), 0.0f, 0.0f));
template <typename S, typename K, typename C> using SumsStore = decltype(value<S>().store(value<K>(), value<C>(), place<float*>()));
template <typename S> using SumsSlot = decltype(S::slot(0));
template <typename S> using SumsScale = decltype(S::scale(0));
template <typename P> using MomentsToGradient = decltype(P::moments_to_gradient(declared<const float*>(), place<float*>()));

// What binning and both rasterizers need: constants, and bounds on the screen.
template <typename P, typename T> LUXEL_HD constexpr bool check_bounds() {
  static_assert(gives<const int, RowWidth, P>, "a policy needs `static constexpr int kRow`: numbers of a primitive's row");
  static_assert(P::kRow >= 4 && P::kRow % 4 == 0, "kRow: a row starts with x, y, opacity, depth and is read 16 bytes at a time");
  static_assert(gives<const int, PieceLength, P>, "a policy needs `static constexpr int kPiece`: instances of a piece of a list");
  static_assert(P::kPiece > 0 && P::kPiece % 32 == 0, "kPiece: a warp takes 32 instances at a time");
  static_assert(gives<const bool, MultiEdge, P>, "a policy needs `static constexpr bool kMultiEdge`");
  static_assert(gives<const bool, HasAbsolute, P>, "a policy needs `static constexpr bool kHasAbsolute`: |d x|, |d y| in slots 3, 7");
  static_assert(gives<const bool, PixelDepth, P>, "a policy needs `static constexpr bool kPixelDepth`: its depth varies over pixels");
  static_assert(!P::kPixelDepth || !P::kMultiEdge, "kPixelDepth is for simple policies");
  using B = typename P::Bounds;
  static_assert(gives<T, BoundsNumber, B>, "Bounds::Number is the policy's float type");
  static_assert(gives<B, BoundsOf, B, T>, "Bounds needs `static Bounds of(const T* row)`");
  static_assert(gives<T, BoundsLeft, B> && gives<T, BoundsRight, B> && gives<T, BoundsTop, B> && gives<T, BoundsBottom, B>,
                "Bounds needs `T left() const`, right, top, bottom: the box outside of which alpha is below kMinAlpha");
  static_assert(gives<bool, BoundsBand, B, T>,
                "Bounds needs `bool band(T y0, T y1, T& left, T& right) const`: its extent over a band of pixel rows");
  return true;
}

}  // namespace policy_detail

#if !defined(__CUDACC__)
// P: the policy in T, float or double. V below is Vector<T>, several pixels of one row.
template <typename P, typename T> LUXEL_HD constexpr bool check_cpu_policy() {
  using namespace policy_detail;
  using V = Vector<T>;
  static_assert(check_bounds<P, T>());
  static_assert(gives<P, Load, P, T>, "a policy needs `static Policy load(const T* row)`");
  static_assert(gives<T, CentreX, P> && gives<T, CentreY, P> && gives<T, Opacity, P> && gives<T, Depth, P>,
                "a policy needs the members T x, y, opacity, depth");
  using A = typename P::template At<V>;
  static_assert(gives<A, At, P, V, T>, "a policy needs `At<V> at(V dx, T dy) const`: pixels relative to (x, y)");
  static_assert(gives<V, Falloff, A>, "At needs `V falloff`: alpha = opacity * falloff");
  static_assert(gives<Mask<T>, Valid, A>, "At needs a mask `valid`: false where falloff must not be used");
  using G = CpuGradient<P, V>;
  static_assert(__is_trivially_copyable(G), "Gradient<V, absolute> is a plain struct of sums, zeroed by `= {}`");
  static_assert(gives<void, GradientAdd, G, P, A, V>,
                "Gradient needs `void add(const Policy&, const At<V>&, V g_alpha)`: adds the gradient of several pixels");
  static_assert(gives<void, GradientStore, G, P, T (*)(V), T>,
                "Gradient needs `void store(const Policy&, Sum, T* row) const`: writes the kRow sums over lanes");
  if constexpr (P::kPixelDepth) {
    static_assert(gives<V, DepthFactor, A>, "At needs `V depth_factor`: depth relative to that of the row");
    static_assert(gives<void, GradientAddDepth, G, P, A, V>,
                  "Gradient needs `void add_depth(const Policy&, const At<V>&, V g_factor)`: adds that by depth_factor");
  }
  return true;
}
#endif

// P: the policy in float.
template <typename P> LUXEL_HD constexpr bool check_gpu_policy() {
  using namespace policy_detail;
  static_assert(check_bounds<P, float>());
  using K = typename P::Packed;
  static_assert(__is_trivially_copyable(K), "Packed lies in shared memory");
  static_assert(gives<K, Pack, P>, "a policy needs `static Packed pack(const float* row)`");
  static_assert(gives<K, NullSplat, P>, "a policy needs `static Packed null_splat()`: one that reaches no pixel");
  static_assert(gives<float, DepthOf, P>, "a policy needs `static float depth_of(const float* row)`");
  static_assert(gives<float, PackedX, K> && gives<float, PackedY, K>, "Packed needs float x, y");
  if constexpr (P::kMultiEdge) {
    static_assert(sizeof(K) % 16 == 0, "Packed of a multi-edge policy is read 16 bytes at a time");
    static_assert(gives<int, Edges, K>, "Packed of a multi-edge policy needs `int edges`");
    using C = EdgeColumn<P>;
    static_assert(__is_constructible(C, const K&, float), "Column<E> needs `Column(const Packed&, float px)`");
    using S = EdgeCoverage<C, K>;
    static_assert(gives<bool, Hits, S> && gives<float, Alpha, S>, "Coverage needs `bool hits(float) const` and `float alpha() const`");
    static_assert(gives<float, EdgeLook, C, K>, "Column<E> needs `float look(const Packed&, float dy) const`: the uncapped alpha");
    using M = EdgeSums<P>;
    static_assert(M::kCount <= P::kRow, "raw moments of a splat wait in the row of its gradient");
    static_assert(gives<void, SumsAdd, M, K, C, S>,
                  "Sums<absolute, E> needs `void add(const Packed&, const Column<E>&, const Coverage<E>&, float dy, float g_log_alpha)`");
    static_assert(gives<void, SumsStore, M, K, C>, "Sums needs `void store(const Packed&, const Column<E>&, float* sums) const`");
    static_assert(gives<int, SumsSlot, M> && gives<float, SumsScale, M>, "Sums needs `static int slot(int)`, `static float scale(int)`");
    static_assert(gives<void, MomentsToGradient, P>,
                  "a multi-edge policy needs `static void moments_to_gradient(const float* row, float* sums)`");
  } else {
    static_assert(gives<float, Highest, K>, "Packed of a simple policy needs `float highest() const`: largest log2(alpha) that counts");
    using C = typename P::Column;
    using S = typename P::Coverage;
    static_assert(__is_constructible(C, const K&, float), "Column needs `Column(const Packed&, float px)`");
    static_assert(gives<S, ColumnAt, C, K>, "Column needs `Coverage at(const Packed&, float dy) const`");
    static_assert(gives<S, LookAt, P>, "a simple policy needs `static Coverage look(const Packed&, float px, float dy)`");
    static_assert(gives<bool, Hits, S> && gives<float, Alpha, S>,
                  "Coverage needs `bool hits(float highest) const` and `float alpha() const`");
    using M = SimpleSums<P>;
    static_assert(M::kCount <= P::kRow, "sums go to slots of the row");
    static_assert(gives<void, SumsAdd, M, K, C, S>,
                  "Sums<absolute> needs `void add(const Packed&, const Column&, const Coverage&, float dy, float g_log_alpha)`");
    static_assert(gives<void, SumsStore, M, K, C>, "Sums needs `void store(const Packed&, const Column&, float* sums) const`");
    if constexpr (P::kPixelDepth) {
      static_assert(gives<float, CoverageDepthFactor, S>, "Coverage needs `float depth_factor() const`: depth relative to that of the row");
      static_assert(gives<void, SumsAddDepth, M, S>, "Sums needs `void add_depth(const Coverage&, float dy, float g_factor)`");
    }
    static_assert(gives<int, SumsSlot, M> && gives<float, SumsScale, M>, "Sums needs `static int slot(int)`, `static float scale(int)`");
  }
  return true;
}

}  // namespace luxel
