#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/compute_device.h"
#include "kernels/element.h"
#include "kernels/training/qwen2_shape.h"

namespace dlc {

/// What a model is trained with.
struct TrainingShape {
  Qwen2Shape model;
  std::int64_t rows = 0;      ///< sequences in a micro-batch
  std::int64_t sequence = 0;  ///< tokens of each
  /// Of the gathered parameters and the activations: kFloat32 (CPU) or kBfloat16 (CUDA; both can).
  DataType compute = DataType::kFloat32;
  /// Of a unit's gradients, which is what the reduce-scatter moves: kFloat32 or kBfloat16.
  DataType gradients = DataType::kFloat32;

  std::int64_t Tokens() const { return rows * sequence; }
};

/// `count` elements from one place to another, both counted in elements.
struct Piece {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
};

/// torch.optim.AdamW (decoupled weight decay, no amsgrad), in float32.
struct AdamWOptions {
  float rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.01F;
};

/// Two buffers of float32, element by element.
struct FloatComparison {
  std::int64_t elements = 0;
  std::int64_t different = 0;   ///< bit for bit
  std::int64_t not_finite = 0;  ///< in either
  double largest_difference = 0;
  double largest_expected = 0;
  double sum_squared_difference = 0;
  double sum_squared_expected = 0;
};

/// Queues of work. On the CPU everything is done at once, whatever the queue.
enum class TrainingQueue : std::uint8_t { kCompute, kCommunication };

/// Memory, arithmetic and a Qwen2 decoder on one device: CUDA, or its twin on the CPU. A call puts
/// its work into the compute queue, or the queue it names, and returns; errors of earlier work may
/// be told by any later call. Pointers are the device's own (host memory on the CPU). After an
/// error the memory's content is undefined, and every call may fail. Not for two threads at once.
class TrainingBackend {
 public:
  virtual ~TrainingBackend() = default;

  // Memory.

  /// Zeroed, aligned to 256 bytes. Too little memory is cudaErrorMemoryAllocation (2), on the CPU
  /// too.
  virtual DeviceStatus Allocate(std::uint64_t bytes, void** memory) = 0;
  virtual void Free(void* memory) = 0;
  virtual DeviceStatus FreeMemory(std::uint64_t& free_bytes, std::uint64_t& total_bytes) = 0;
  /// In bytes. `from` may be used again on return.
  virtual DeviceStatus Upload(void* to, const void* from, std::uint64_t bytes) = 0;
  /// Waits for the compute queue.
  virtual DeviceStatus Download(void* to, const void* from, std::uint64_t bytes) = 0;

  // Queues.

  /// cudaStream_t, for collectives; nullptr on the CPU.
  virtual void* Stream(TrainingQueue queue) = 0;
  /// A mark behind all that is in the queue now; -1 with an error told by the next call. Marks live
  /// until ForgetMarks.
  virtual int Mark(TrainingQueue queue) = 0;
  /// What is put into the queue from now on starts after what is before the mark.
  virtual DeviceStatus WaitFor(TrainingQueue queue, int mark) = 0;
  /// Whether all before the mark is done: to wait with a deadline, poll.
  virtual DeviceStatus IsDone(int mark, bool& done) = 0;
  /// Between two marks that are done.
  virtual DeviceStatus SecondsBetween(int from, int to, double& seconds) = 0;
  virtual void ForgetMarks() = 0;
  /// Until both queues are empty.
  virtual DeviceStatus Wait() = 0;

  // Shards. Counts are elements; buffers do not overlap, but for what says so.

  /// A list of pieces that can be moved many times. The pieces do not overlap where they go.
  virtual DeviceStatus PreparePieces(const std::vector<Piece>& pieces, int& handle) = 0;
  /// Copies, and converts between kFloat32 and kBfloat16 (nearest, ties to even).
  virtual DeviceStatus Move(int pieces, const void* from, DataType from_type, void* to,
                            DataType to_type, TrainingQueue queue) = 0;
  /// into = from * factor, or into += from * factor: one rounding for the product, one for the sum.
  virtual DeviceStatus Accumulate(float* into, const void* from, DataType from_type, float factor,
                                  bool add, std::int64_t count) = 0;
  /// Adds the sum of squares, in double, to *sum (device memory). The order of additions is the
  /// same in every run with the same count.
  virtual DeviceStatus AddSquares(const float* values, std::int64_t count, double* sum) = 0;
  /// *scale = min(1, largest / (sqrt(*sum) + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it; all
  /// in device memory but `largest`.
  virtual DeviceStatus ClipScale(const double* sum, double largest, float* scale) = 0;
  /// One step on a shard; `step` counts from 1. The gradient is multiplied by *scale (device
  /// memory) first. In torch's order of operations: parameter *= 1 - rate * decay; m = lerp; v =
  /// beta2 * v + (1 - beta2) * g * g; parameter -= rate / (1 - beta1^step) * m / (sqrt(v) /
  /// sqrt(1 - beta2^step) + epsilon), without fused multiply-add: the CPU's bits and the GPU's are
  /// the same. `copy` receives the new parameter as copy_type, where it is not nullptr.
  virtual DeviceStatus AdamW(const AdamWOptions& options, std::int64_t step, const float* gradient,
                             const float* scale, float* parameter, float* m, float* v, void* copy,
                             DataType copy_type, std::int64_t count) = 0;

  // Synthetic values (kernels/training/synthetic.h) and comparison.

  /// to[i] = mean + spread * SyntheticNormal(key, first + i).
  virtual DeviceStatus FillNormal(float* to, std::uint64_t key, std::int64_t first,
                                  std::int64_t count, float mean, float spread) = 0;
  /// to[i] = SyntheticInteger(key, first + i), as `type`.
  virtual DeviceStatus FillIntegers(void* to, DataType type, std::uint64_t key, std::int64_t first,
                                    std::int64_t count) = 0;
  /// Adds to *hash (host memory) the sum over i of MixBits(bits of values[i] ^ MixBits(key ^ (first
  /// + i))), modulo 2^64: however a tensor is cut, the sum over its shards is the same. Waits.
  virtual DeviceStatus AddHash(const float* values, std::uint64_t key, std::int64_t first,
                               std::int64_t count, std::uint64_t* hash) = 0;
  /// Adds to `comparison` (host memory). Waits.
  virtual DeviceStatus Compare(const float* found, const float* expected, std::int64_t count,
                               FloatComparison& comparison) = 0;

  // The model. Units are buffers of UnitElements, as Qwen2Parameters lays them out, of type
  // `compute`; their gradients of type `gradients`, whose filling between parameters is left alone.

  /// What PrepareModel would take, besides the units.
  virtual std::uint64_t ActivationBytes(const TrainingShape& shape) const = 0;
  /// Takes the memory for activations. Once; the calls below are for this shape.
  virtual DeviceStatus PrepareModel(const TrainingShape& shape) = 0;
  /// Starts a micro-batch: `tokens` is rows * (sequence + 1), in host memory, copied.
  virtual DeviceStatus Embed(const void* root, const std::int32_t* tokens) = 0;
  /// Layers in order, each once.
  virtual DeviceStatus ForwardLayer(int layer, const void* unit) = 0;
  /// Final norm, head and cross-entropy, forward and backward. The mean loss over all tokens goes
  /// to *loss (device memory). Overwrites the root's gradient; gradients are of the mean loss.
  virtual DeviceStatus Loss(const void* root, void* root_gradient, float* loss) = 0;
  /// Layers in reverse order. Overwrites the unit's gradient.
  virtual DeviceStatus BackwardLayer(int layer, const void* unit, void* unit_gradient) = 0;
  /// Adds the embedding's part to the root's gradient. The same bits in every run.
  virtual DeviceStatus BackwardEmbed(void* root_gradient) = 0;
};

}  // namespace dlc
