#include "kernels/training/cuda_products.cuh"

#include <string>
#include <utility>

namespace dlc {

namespace abi = cublas_abi;

struct CudaProducts::Plan {
  Plan(const CublasLt& all) : library(all) {}
  ~Plan() {
    for (const abi::Layout layout : {left, right, out}) {
      if (layout != nullptr) {
        library.layout_destroy(layout);
      }
    }
    if (description != nullptr) {
      library.description_destroy(description);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const CublasLt& library;
  abi::Description description = nullptr;
  abi::Layout left = nullptr;
  abi::Layout right = nullptr;
  abi::Layout out = nullptr;
  abi::Heuristic chosen{};
  bool usable = false;  ///< else our own kernel
};

namespace {

int RealType(DataType type) {
  return type == DataType::kFloat32 ? abi::kReal32F : abi::kReal16BF;
}

/// The largest power of two up to 256 that divides the address and the step between rows.
std::uint32_t AlignmentOf(const void* at, std::int64_t step, DataType type) {
  const std::uint64_t bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(at)) |
                             static_cast<std::uint64_t>(step) * ElementBytes(type) | 256U;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

struct Alignments {
  explicit Alignments(const CudaProduct& product)
      : left(AlignmentOf(product.left.data, product.left.step, product.in)),
        right(AlignmentOf(product.right.data, product.right.step, product.in)),
        add(AlignmentOf(product.add != nullptr ? product.add : product.out, product.out_step,
                        product.out_type)),
        out(AlignmentOf(product.out, product.out_step, product.out_type)) {}
  std::uint32_t left;
  std::uint32_t right;
  std::uint32_t add;
  std::uint32_t out;
};

/// Of all products' algorithms, which may be asked for.
class Preference {
 public:
  explicit Preference(const CublasLt& library) : library_(library) {}
  ~Preference() {
    if (preference_ != nullptr) {
      library_.preference_destroy(preference_);
    }
  }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  int Make(const CudaProduct& product, bool workspace) {
    int status = library_.preference_create(&preference_);
    const auto set = [&](int attribute, auto value) {
      if (status == abi::kSuccess) {
        status = library_.preference_set(preference_, attribute, &value, sizeof value);
      }
    };
    set(abi::kPreferenceWorkspaceBytes,
        workspace ? CudaProducts::kWorkspaceBytes : std::uint64_t{0});
    // Not the scheme whose order of additions is that of arrival, nor one that rounds parts.
    set(abi::kPreferenceReductionSchemes, abi::kReductionComputeType);
    // By columns the factors change places.
    const Alignments alignments(product);
    set(abi::kPreferenceAlignmentA, alignments.right);
    set(abi::kPreferenceAlignmentA + 1, alignments.left);
    set(abi::kPreferenceAlignmentA + 2, alignments.add);
    set(abi::kPreferenceAlignmentA + 3, alignments.out);
    return status;
  }
  abi::Preference Get() const { return preference_; }

 private:
  const CublasLt& library_;
  abi::Preference preference_ = nullptr;
};

}  // namespace

CudaProducts::~CudaProducts() {
  plans_.clear();
  if (handle_ != nullptr) {
    library_.destroy(handle_);
  }
}

bool CudaProducts::Good(CudaCalls& calls, int status, const char* call) const {
  if (status != abi::kSuccess) {
    calls.Fail({status, library_.status_name(status), "cuBLASLt failed", call});
  }
  return calls.Good();
}

DeviceStatus CudaProducts::Open(CublasLt library) {
  library_ = std::move(library);
  CudaCalls calls;
  Good(calls, library_.create(&handle_), "cublasLtCreate");
  return calls.Take();
}

CudaProducts::Plan& CudaProducts::PlanFor(CudaCalls& calls, const CudaProduct& product) {
  const Alignments alignments(product);
  const Key key = {product.rows,
                   product.columns,
                   product.depth,
                   product.left.step,
                   product.right.step,
                   product.out_step,
                   (product.left.turned ? 1 : 0) + (product.right.turned ? 2 : 0) +
                       (product.add != nullptr ? 4 : 0) + (product.bias != nullptr ? 8 : 0),
                   static_cast<std::int64_t>(product.in),
                   static_cast<std::int64_t>(product.out_type),
                   alignments.left,
                   alignments.right,
                   alignments.add,
                   alignments.out};
  std::unique_ptr<Plan>& plan = plans_[key];
  if (plan == nullptr) {
    plan = std::make_unique<Plan>(library_);
    MakePlan(calls, product, *plan);
    own_shapes_ += plan->usable ? 0 : 1;
  }
  return *plan;
}

// cuBLASLt's matrices lie by columns: what lies by rows is its own transpose there, so it is given
// out^T = right^T * left^T.
void CudaProducts::MakePlan(CudaCalls& calls, const CudaProduct& product, Plan& plan) {
  const auto layout = [&](abi::Layout* to, DataType type, std::int64_t rows, std::int64_t columns,
                          std::int64_t step) {
    return Good(calls,
                library_.layout_create(to, RealType(type), static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(columns), step),
                "cublasLtMatrixLayoutCreate");
  };
  const auto describe = [&](int attribute, auto value) {
    Good(calls, library_.description_set(plan.description, attribute, &value, sizeof value),
         "cublasLtMatmulDescSetAttribute");
  };
  const bool left_turned = product.left.turned;
  const bool right_turned = product.right.turned;
  if (!Good(calls,
            library_.description_create(&plan.description, abi::kCompute32F, abi::kReal32F),
            "cublasLtMatmulDescCreate") ||
      !layout(&plan.right, product.in, right_turned ? product.depth : product.columns,
              right_turned ? product.columns : product.depth, product.right.step) ||
      !layout(&plan.left, product.in, left_turned ? product.rows : product.depth,
              left_turned ? product.depth : product.rows, product.left.step) ||
      !layout(&plan.out, product.out_type, product.columns, product.rows, product.out_step)) {
    return;
  }
  if (right_turned) {
    describe(abi::kDescriptionTransposeA, abi::kTransposed);
  }
  if (left_turned) {
    describe(abi::kDescriptionTransposeB, abi::kTransposed);
  }
  if (product.bias != nullptr) {
    describe(abi::kDescriptionEpilogue, abi::kEpilogueBias);
    describe(abi::kDescriptionBiasPointer, product.bias);
  }
  Preference preference(library_);
  if (!calls.Good() || !Good(calls, preference.Make(product, workspace_ != nullptr),
                             "cublasLtMatmulPreferenceSetAttribute")) {
    return;
  }
  int found = 0;
  // A status that is not good means that there is no algorithm: then ours does it.
  const int status = library_.heuristic(handle_, plan.description, plan.right, plan.left, plan.out,
                                        plan.out, preference.Get(), 1, &plan.chosen, &found);
  plan.usable = status == abi::kSuccess && found > 0 && plan.chosen.state == abi::kSuccess;
}

void CudaProducts::Multiply(CudaQueue queue, const CudaProduct& product) {
  if (!queue.calls.Good()) {
    return;
  }
  const Plan& plan = PlanFor(queue.calls, product);
  if (!queue.calls.Good()) {
    return;
  }
  if (!plan.usable) {
    CudaMultiplyPlainly(queue, product);
    return;
  }
  if (product.bias != nullptr &&
      !Good(queue.calls,
            library_.description_set(plan.description, abi::kDescriptionBiasPointer, &product.bias,
                                     sizeof product.bias),
            "cublasLtMatmulDescSetAttribute")) {
    return;
  }
  const float one = 1;
  const float beta = product.add != nullptr ? 1.0F : 0.0F;
  const void* add = product.add != nullptr ? product.add : product.out;
  const int status = library_.matmul(
      handle_, plan.description, &one, product.right.data, plan.right, product.left.data, plan.left,
      &beta, add, plan.out, product.out, plan.out, &plan.chosen.algorithm, workspace_,
      workspace_ != nullptr ? kWorkspaceBytes : 0, queue.stream);
  if (status != abi::kSuccess) {
    Good(queue.calls, status,
         ("cublasLtMatmul of " + std::to_string(product.rows) + " x " +
          std::to_string(product.columns) + " x " + std::to_string(product.depth))
             .c_str());
  }
}

}  // namespace dlc
