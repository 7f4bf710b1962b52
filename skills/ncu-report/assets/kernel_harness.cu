// Harness for one kernel under Nsight Compute: model-derived shapes, dtype and layout; a correctness reference; poisoned
// output; L2 flush. Replace the parts between REPLACE and END. The example is a residual add with RMSNorm.
//
//   nvcc -O3 -std=c++17 -lineinfo -arch=sm_90a -o harness kernel_harness.cu        (your GPU's architecture)
//   ./harness --tokens 4096 --hidden 8192 --stride 8192                            (shapes of the profiled model run)
//   ncu --profile-from-start off --set full --launch-count 5 -o kernel-v1 ./harness --tokens 4096 --hidden 8192
//   infer-forge ncu digest kernel-v1.ncu-rep --kernel add_rmsnorm
//
// Exit codes: 0 correct and timed; 1 wrong result; 2 wrong usage; 3 CUDA error.
#include <cuda_bf16.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                              \
  do {                                                                                           \
    cudaError_t status_ = (call);                                                                \
    if (status_ != cudaSuccess) {                                                                \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status_)); \
      std::exit(3);                                                                              \
    }                                                                                            \
  } while (0)

// REPLACE: dtype of the model run, its tolerance, and the shapes with their defaults from the profile (op shapes, strides).
using scalar_t = __nv_bfloat16;
constexpr double kRelativeTolerance = 1.6e-2;  // bf16 keeps 8 bits: 2^-8, times a few roundings
constexpr double kAbsoluteTolerance = 1e-3;

struct Shape {
  int64_t tokens = 4096;
  int64_t hidden = 8192;
  int64_t stride = 0;  // elements between rows; 0: contiguous. Take it from the model run, a view is not contiguous
};

// The kernel under test.
__global__ void add_rmsnorm(const scalar_t* x, const scalar_t* residual, const scalar_t* weight, scalar_t* out,
                            int64_t hidden, int64_t stride, float epsilon) {
  extern __shared__ float partial[];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * stride;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float value = __bfloat162float(x[row + i]) + __bfloat162float(residual[row + i]);
    sum += value * value;
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int step = blockDim.x / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  const float scale = rsqrtf(partial[0] / static_cast<float>(hidden) + epsilon);
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float value = __bfloat162float(x[row + i]) + __bfloat162float(residual[row + i]);
    out[row + i] = __float2bfloat16(value * scale * __bfloat162float(weight[i]));
  }
}

struct Problem {
  Shape shape;
  std::vector<float> x, residual, weight;          // on the host, already rounded to scalar_t
  scalar_t *d_x, *d_residual, *d_weight, *d_out;   // on the device
  static constexpr float kEpsilon = 1e-6f;

  int64_t elements() const { return shape.tokens * shape.stride; }

  void launch(cudaStream_t stream) const {
    constexpr int kThreads = 256;
    add_rmsnorm<<<static_cast<unsigned>(shape.tokens), kThreads, kThreads * sizeof(float), stream>>>(
        d_x, d_residual, d_weight, d_out, shape.hidden, shape.stride, kEpsilon);
  }

  // Bytes that must move at the least: what the roof is counted with.
  double least_bytes() const {
    return sizeof(scalar_t) * (3.0 * shape.tokens * shape.hidden + shape.hidden);
  }

  // Reference in double precision, written apart from the kernel.
  double expected(int64_t token, int64_t column) const {
    double sum = 0.0;
    for (int64_t i = 0; i < shape.hidden; ++i) {
      const double value = static_cast<double>(x[token * shape.stride + i]) + residual[token * shape.stride + i];
      sum += value * value;
    }
    const double value = static_cast<double>(x[token * shape.stride + column]) + residual[token * shape.stride + column];
    return value / std::sqrt(sum / shape.hidden + kEpsilon) * weight[column];
  }
};
// END

static float rounded(float value) { return __bfloat162float(__float2bfloat16(value)); }

static void fill(std::vector<float>& data, uint32_t seed) {
  for (float& value : data) {  // xorshift: the same numbers on every machine
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    value = rounded((static_cast<float>(seed) / 4294967296.0f - 0.5f) * 2.0f);
  }
}

static scalar_t* upload(const std::vector<float>& data) {
  std::vector<scalar_t> host(data.size());
  std::transform(data.begin(), data.end(), host.begin(), [](float v) { return __float2bfloat16(v); });
  scalar_t* device = nullptr;
  CHECK(cudaMalloc(&device, host.size() * sizeof(scalar_t)));
  CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(scalar_t), cudaMemcpyHostToDevice));
  return device;
}

// Guard elements behind the output: an overrun shows there, and unwritten output keeps the poison (a NaN).
constexpr int64_t kGuard = 4096;
constexpr int kPoison = 0xFF;

static int64_t wrong_elements(const Problem& problem) {
  const int64_t count = problem.elements() + kGuard;
  std::vector<scalar_t> out(count);
  CHECK(cudaMemcpy(out.data(), problem.d_out, count * sizeof(scalar_t), cudaMemcpyDeviceToHost));
  int64_t wrong = 0;
  for (int64_t i = problem.elements(); i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, &out[i], sizeof bits);
    if (bits != 0xFFFF && wrong++ == 0) std::fprintf(stderr, "guard overwritten at %lld\n", static_cast<long long>(i));
  }
  const int64_t rows = std::min<int64_t>(problem.shape.tokens, 64);  // first, last and evenly spread rows
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t token = rows == 1 ? 0 : r * (problem.shape.tokens - 1) / (rows - 1);
    for (int64_t c = 0; c < problem.shape.hidden; c += std::max<int64_t>(1, problem.shape.hidden / 97)) {
      const double got = __bfloat162float(out[token * problem.shape.stride + c]);
      const double want = problem.expected(token, c);
      if (!(std::fabs(got - want) <= kAbsoluteTolerance + kRelativeTolerance * std::fabs(want)) && wrong++ < 5) {
        std::fprintf(stderr, "row %lld column %lld: got %g, want %g\n", static_cast<long long>(token), static_cast<long long>(c), got, want);
      }
    }
  }
  return wrong;
}

// Writes twice the L2 so that no run finds its input there (ncu does the same with --cache-control all).
struct CacheFlush {
  void* buffer = nullptr;
  size_t bytes = 0;
  CacheFlush() {
    int device = 0, l2 = 0;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device));
    bytes = 2 * static_cast<size_t>(std::max(l2, 1 << 20));
    CHECK(cudaMalloc(&buffer, bytes));
  }
  void run(cudaStream_t stream) const { CHECK(cudaMemsetAsync(buffer, 0, bytes, stream)); }
};

static float median_us(const Problem& problem, int repeats) {
  CacheFlush flush;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < repeats + 3; ++i) {  // three warm-up runs are not counted
    flush.run(nullptr);
    CHECK(cudaEventRecord(begin));
    problem.launch(nullptr);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms = 0.0f;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 3) times.push_back(ms * 1000.0f);
  }
  std::sort(times.begin(), times.end());
  std::printf("time_us median %.2f min %.2f max %.2f over %d runs, cold L2\n", times[times.size() / 2], times.front(), times.back(), repeats);
  return times[times.size() / 2];
}

static int64_t option(int argc, char** argv, const char* name, int64_t fallback) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return std::atoll(argv[i + 1]);
  }
  return fallback;
}

int main(int argc, char** argv) {
  Problem problem;
  problem.shape.tokens = option(argc, argv, "--tokens", problem.shape.tokens);
  problem.shape.hidden = option(argc, argv, "--hidden", problem.shape.hidden);
  problem.shape.stride = option(argc, argv, "--stride", problem.shape.hidden);
  const int64_t profiled = option(argc, argv, "--launches", 5);
  if (problem.shape.tokens < 1 || problem.shape.hidden < 1 || problem.shape.stride < problem.shape.hidden || profiled < 1) {
    std::fprintf(stderr, "usage: harness [--tokens N] [--hidden N] [--stride N] [--launches N]\n");
    return 2;
  }
  problem.x.resize(problem.elements());
  problem.residual.resize(problem.elements());
  problem.weight.resize(problem.shape.hidden);
  fill(problem.x, 1u);
  fill(problem.residual, 2u);
  fill(problem.weight, 3u);
  problem.d_x = upload(problem.x);
  problem.d_residual = upload(problem.residual);
  problem.d_weight = upload(problem.weight);
  const size_t out_bytes = (problem.elements() + kGuard) * sizeof(scalar_t);
  CHECK(cudaMalloc(&problem.d_out, out_bytes));

  CHECK(cudaMemset(problem.d_out, kPoison, out_bytes));
  problem.launch(nullptr);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  const int64_t wrong = wrong_elements(problem);
  std::printf("correct %s, wrong elements %lld of the checked ones\n", wrong == 0 ? "yes" : "no", static_cast<long long>(wrong));
  if (wrong != 0) return 1;

  const float us = median_us(problem, 50);
  std::printf("least bytes %.0f, %.1f GB/s of them\n", problem.least_bytes(), problem.least_bytes() / us * 1e-3);

  CHECK(cudaProfilerStart());  // with --profile-from-start off, ncu profiles these launches alone
  for (int64_t i = 0; i < profiled; ++i) problem.launch(nullptr);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaProfilerStop());
  return 0;
}
