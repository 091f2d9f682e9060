// CPU twin of mlp: a block of rows passes through all layers while it is in the cache.
#include "kernels/field/mlp/mlp.h"

#include "math/simd.h"

namespace luxel {
namespace {

constexpr int kRows = 6;             // of a product that registers hold, two vectors wide
constexpr int kBlock = kRowsOfPart;  // rows that pass through the layers together
static_assert(kBlock % kRows == 0);
template <typename T> constexpr int kColumns = 2 * kLanes<T>;
constexpr int kWidest = LUXEL_MLP_WIDEST;
template <typename T> int padded(int n) { return round_up(n, kColumns<T>); }

// c[r][n] (+)= sum over k of a(r, k) b[k][n], for R rows and two vectors of columns; a(r, k) = a[r row + k step].
template <int R, bool kAdd, typename T>
void product_of_rows(int depth, const T* a, int64_t row, int64_t step, const T* b, int64_t b_row, T* c, int64_t c_row) {
  Vector<T> sums[R][2];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < 2; ++v) sums[r][v] = kAdd ? load_vector(c + r * c_row + v * kLanes<T>) : Vector<T>{};
  for (int k = 0; k < depth; ++k, a += step, b += b_row) {
    const Vector<T> left = load_vector(b), right = load_vector(b + kLanes<T>);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Vector<T> factor = broadcast(a[r * row]);
      sums[r][0] += factor * left;
      sums[r][1] += factor * right;
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < 2; ++v) store_vector(c + r * c_row + v * kLanes<T>, sums[r][v]);
}

// The same for any number of rows, and columns that are a multiple of kColumns.
template <bool kAdd, typename T>
void product(int rows, int columns, int depth, const T* a, int64_t row, int64_t step, const T* b, int64_t b_row, T* c,
             int64_t c_row) {
  for (int n = 0; n < columns; n += kColumns<T>) {
    int r = 0;
    const auto part = [&](auto run) { run(depth, a + r * row, row, step, b + n, b_row, c + r * c_row + n, c_row); };
    for (; r + kRows <= rows; r += kRows) part(product_of_rows<kRows, kAdd, T>);
    switch (rows - r) {
      case 5: part(product_of_rows<5, kAdd, T>); break;
      case 4: part(product_of_rows<4, kAdd, T>); break;
      case 3: part(product_of_rows<3, kAdd, T>); break;
      case 2: part(product_of_rows<2, kAdd, T>); break;
      case 1: part(product_of_rows<1, kAdd, T>); break;
      default: break;
    }
  }
}

template <typename T> void activate_all(int activation, int64_t count, T* values) {
  if (activation == LUXEL_RELU)
    for (int64_t i = 0; i < count; ++i) values[i] = activate(LUXEL_RELU, values[i]);
  else if (activation != LUXEL_LINEAR)
    for (int64_t i = 0; i < count; ++i) values[i] = activate(activation, values[i]);
}
template <typename T> void activate_all_vjp(int activation, int64_t count, const T* y, T* g) {
  if (activation == LUXEL_RELU)
    for (int64_t i = 0; i < count; ++i) g[i] = y[i] <= T(0) ? T(0) : g[i];
  else if (activation != LUXEL_LINEAR)
    for (int64_t i = 0; i < count; ++i) g[i] *= activate_vjp(activation, y[i]);
}

// Copies [rows, columns] between row strides; what lies beyond the columns becomes 0 where `to` is wider.
template <typename T> void copy_rows(int64_t rows, int columns, const T* from, int from_row, T* to, int to_row) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int n = 0; n < columns; ++n) to[r * to_row + n] = from[r * from_row + n];
    for (int n = columns; n < to_row; ++n) to[r * to_row + n] = T(0);
  }
}

// Matrices as the products read them: forward [inputs, padded outputs], backward [outputs, padded inputs].
template <typename T> int64_t matrix_size(const luxel_mlp_args& args, int layer, bool backward) {
  const int inputs = layer_inputs(args, layer), outputs = layer_outputs(args, layer);
  return backward ? int64_t{outputs} * padded<T>(inputs) : int64_t{inputs} * padded<T>(outputs);
}
template <typename T> int64_t all_matrices(const luxel_mlp_args& args, bool backward) {
  int64_t total = 0;
  for (int layer = 0; layer <= args.hidden_layers; ++layer) total += matrix_size<T>(args, layer, backward);
  return total;
}
template <typename T> void write_matrices(const luxel_mlp_args& args, bool backward, T* to) {
  for (int layer = 0; layer <= args.hidden_layers; ++layer) {
    const int inputs = layer_inputs(args, layer), outputs = layer_outputs(args, layer), wide = padded<T>(outputs);
    const T* from = in<T>(args.weights) + layer_start(args, layer);
    if (backward) {
      copy_rows(outputs, inputs, from, inputs, to, padded<T>(inputs));
    } else {
      for (int i = 0; i < inputs; ++i)
        for (int o = 0; o < wide; ++o) to[i * wide + o] = o < outputs ? from[o * inputs + i] : T(0);
    }
    to += matrix_size<T>(args, layer, backward);
  }
}

// Rows of x with the harmonics of their directions after them.
template <typename T> void join_harmonics(const luxel_mlp_args& args, int64_t first, int rows, T* to) {
  const int columns = args.inputs - kHarmonics;
  for (int64_t r = 0; r < rows; ++r) {
    const T* const x = in<T>(args.x) + (first + r) * columns;
    for (int n = 0; n < columns; ++n) to[r * args.inputs + n] = x[n];
    harmonics_of(load3(in<T>(args.directions) + 3 * (first + r)), to + r * args.inputs + columns);
    out<T>(args.first)[first + r] = x[0];
  }
}

template <typename T> int forward(const luxel_mlp_args& args) {
  T* const matrices = out<T>(args.workspace);
  write_matrices(args, false, matrices);
  const int64_t count = live_rows(args), blocks = (count + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; ++block) {
    alignas(64) T scratch[2][kBlock * kWidest], joined[kBlock * kWidest];
    const int64_t first = block * kBlock;
    const int rows = static_cast<int>(smaller<int64_t>(kBlock, count - first)), width = args.width;
    const T *matrix = matrices, *from = in<T>(args.x) + first * args.inputs;
    if (args.directions) {
      join_harmonics(args, first, rows, joined);
      from = joined;
    }
    for (int layer = 0; layer <= args.hidden_layers; ++layer) {
      const int inputs = layer_inputs(args, layer), wide = padded<T>(layer_outputs(args, layer));
      const bool last = layer == args.hidden_layers, keep = !last && args.hidden;
      T* const to = keep ? out<T>(args.hidden) + (layer * args.count + first) * width : scratch[layer % 2];
      product<false>(rows, wide, inputs, from, inputs, 1, matrix, wide, to, wide);
      activate_all(last ? args.output_activation : args.activation, int64_t{rows} * wide, to);
      matrix += matrix_size<T>(args, layer, false);
      from = to;
    }
    copy_rows(rows, args.outputs, from, padded<T>(args.outputs), out<T>(args.out) + first * args.outputs, args.outputs);
  }
  return 0;
}

// One block of rows: its part of g_x, and of the gradients of the matrices, which `sums` takes (null: none).
template <typename T> void backward_block(const luxel_mlp_args& args, int64_t first, int rows, const T* matrices, T* sums) {
  alignas(64) T scratch[2][kBlock * kWidest], x[kBlock * kWidest];
  const int hidden = args.hidden_layers, outputs = args.outputs;
  T* g = scratch[0];
  copy_rows(rows, outputs, in<T>(args.g_out) + first * outputs, outputs, g, outputs);
  activate_all_vjp(args.output_activation, int64_t{rows} * outputs, in<T>(args.out) + first * outputs, g);
  int64_t start = all_matrices<T>(args, true);
  for (int layer = hidden; layer >= 0; --layer) {
    const int columns = layer_outputs(args, layer), wide = padded<T>(layer_inputs(args, layer));
    start -= matrix_size<T>(args, layer, true);
    const T* entered = layer ? in<T>(args.hidden) + ((layer - 1) * args.count + first) * args.width : x;
    if (sums) {
      if (layer == 0) copy_rows(rows, args.inputs, in<T>(args.x) + first * args.inputs, args.inputs, x, wide);
      product<true>(columns, wide, rows, g, 1, columns, entered, wide, sums + start, wide);
    }
    if (layer == 0 && !args.g_x) return;
    T* const to = scratch[(hidden - layer + 1) % 2];
    product<false>(rows, wide, columns, g, columns, 1, matrices + start, wide, to, wide);
    if (layer) activate_all_vjp(args.activation, int64_t{rows} * wide, entered, to);
    g = to;
  }
  copy_rows(rows, args.inputs, g, padded<T>(args.inputs), out<T>(args.g_x) + first * args.inputs, args.inputs);
}

template <typename T> int backward(const luxel_mlp_args& args) {
  const int64_t size = all_matrices<T>(args, true), runs = runs_of(args.count);
  const int64_t per_run = rows_of_run(args.count);
  T *const matrices = out<T>(args.workspace), *const sums = matrices + size;
  write_matrices(args, true, matrices);
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t run = 0; run < runs; ++run) {
    T* const own = args.g_weights ? sums + run * size : nullptr;
    for (int64_t i = 0; own && i < size; ++i) own[i] = T(0);
    const int64_t end = smaller(args.count, (run + 1) * per_run);
    for (int64_t first = run * per_run; first < end; first += kBlock)
      backward_block(args, first, static_cast<int>(smaller<int64_t>(kBlock, end - first)), matrices, own);
  }
  if (!args.g_weights) return 0;
  int64_t start = 0;
  for (int layer = 0; layer <= args.hidden_layers; ++layer) {
    const int inputs = layer_inputs(args, layer), outputs = layer_outputs(args, layer), wide = padded<T>(inputs);
    T* const to = out<T>(args.g_weights) + layer_start(args, layer);
#pragma omp parallel for schedule(static)
    for (int o = 0; o < outputs; ++o)
      for (int i = 0; i < inputs; ++i) {
        double total = 0;
        for (int64_t run = 0; run < runs; ++run) total += sums[run * size + start + int64_t{o} * wide + i];
        to[o * inputs + i] = static_cast<T>(total);
      }
    start += matrix_size<T>(args, layer, true);
  }
  return 0;
}

int64_t real_size(const luxel_mlp_args& args) { return args.dtype ? sizeof(double) : sizeof(float); }

}  // namespace
}  // namespace luxel

extern "C" {

int64_t luxel_mlp_fwd_workspace(const luxel_mlp_args* args) {
  using namespace luxel;
  return real_size(*args) * (args->dtype ? all_matrices<double>(*args, false) : all_matrices<float>(*args, false));
}

int64_t luxel_mlp_bwd_workspace(const luxel_mlp_args* args) {
  using namespace luxel;
  const int64_t size = args->dtype ? all_matrices<double>(*args, true) : all_matrices<float>(*args, true);
  return real_size(*args) * size * (1 + runs_of(args->count));
}

int luxel_mlp_fwd(const luxel_mlp_args* args) {
  using namespace luxel;
  if (check_mlp(*args) < 0) return -1;
  if (args->workspace_bytes < luxel_mlp_fwd_workspace(args)) return fail("mlp: workspace too small");
  return args->dtype ? forward<double>(*args) : forward<float>(*args);
}

int luxel_mlp_bwd(const luxel_mlp_args* args) {
  using namespace luxel;
  if (check_mlp(*args) < 0) return -1;
  if (args->workspace_bytes < luxel_mlp_bwd_workspace(args)) return fail("mlp: workspace too small");
  return args->dtype ? backward<double>(*args) : backward<float>(*args);
}
}
