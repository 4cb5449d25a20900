#include <algorithm>
#include <string>

#include "kernels/training/cuda_backend_class.cuh"

// Memory, and queues of work.
namespace dlc {

DeviceStatus CudaTrainingBackend::Allocate(std::uint64_t bytes, void** memory) {
  *memory = nullptr;
  const std::uint64_t size = std::max<std::uint64_t>(bytes, 256);
  return Put([&](CudaQueue queue) {
    const std::string call = "cudaMalloc of " + std::to_string(bytes) + " bytes";
    if (!queue.calls.Ok(cudaMalloc(memory, size), call.c_str())) {
      *memory = nullptr;
      return;
    }
    // Waits: the other queue may write there next.
    if (!queue.calls.Ok(cudaMemsetAsync(*memory, 0, size, queue.stream), "cudaMemsetAsync") ||
        !queue.calls.Ok(cudaStreamSynchronize(queue.stream), "cudaStreamSynchronize")) {
      cudaFree(*memory);
      *memory = nullptr;
    }
  });
}

void CudaTrainingBackend::Free(void* memory) {
  CudaCalls calls;
  if (memory != nullptr && Begin(calls)) {
    calls.Ok(cudaFree(memory), "cudaFree");
  }
  if (!calls.Good()) {
    pending_ = calls.Take();
  }
}

DeviceStatus CudaTrainingBackend::FreeMemory(std::uint64_t& free_bytes,
                                             std::uint64_t& total_bytes) {
  return Put([&](CudaQueue queue) {
    std::size_t available = 0;
    std::size_t total = 0;
    queue.calls.Ok(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    free_bytes = available;
    total_bytes = total;
  });
}

DeviceStatus CudaTrainingBackend::Upload(void* to, const void* from, std::uint64_t bytes) {
  return Put([&](CudaQueue queue) {
    if (queue.calls.Ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue.stream),
                       "cudaMemcpyAsync to the device")) {
      queue.calls.Ok(cudaStreamSynchronize(queue.stream), "cudaStreamSynchronize");
    }
  });
}

DeviceStatus CudaTrainingBackend::Download(void* to, const void* from, std::uint64_t bytes) {
  return Put([&](CudaQueue queue) {
    if (queue.calls.Ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue.stream),
                       "cudaMemcpyAsync from the device")) {
      queue.calls.Ok(cudaStreamSynchronize(queue.stream), "cudaStreamSynchronize");
    }
  });
}

int CudaTrainingBackend::Mark(TrainingQueue queue) {
  CudaCalls calls;
  if (!Begin(calls)) {
    pending_ = calls.Take();
    return -1;
  }
  if (static_cast<std::size_t>(marks_) == events_.size()) {
    cudaEvent_t event = nullptr;
    if (!calls.Ok(cudaEventCreate(&event), "cudaEventCreate")) {
      pending_ = calls.Take();
      return -1;
    }
    events_.push_back(event);
  }
  if (!calls.Ok(cudaEventRecord(events_[static_cast<std::size_t>(marks_)], StreamOf(queue)),
                "cudaEventRecord")) {
    pending_ = calls.Take();
    return -1;
  }
  return marks_++;
}

DeviceStatus CudaTrainingBackend::WaitFor(TrainingQueue queue, int mark) {
  return Put(
      [&](CudaQueue own) {
        if (IsMark(mark)) {
          own.calls.Ok(cudaStreamWaitEvent(own.stream, events_[static_cast<std::size_t>(mark)], 0),
                       "cudaStreamWaitEvent");
        } else {
          own.calls.Fail(InvalidCudaValue("mark " + std::to_string(mark)));
        }
      },
      queue);
}

DeviceStatus CudaTrainingBackend::IsDone(int mark, bool& done) {
  done = false;
  return Put([&](CudaQueue queue) {
    if (!IsMark(mark)) {
      queue.calls.Fail(InvalidCudaValue("mark " + std::to_string(mark)));
      return;
    }
    const cudaError_t code = cudaEventQuery(events_[static_cast<std::size_t>(mark)]);
    if (code == cudaErrorNotReady) {
      cudaGetLastError();  // no error: it must not be blamed on the next launch
      return;
    }
    done = queue.calls.Ok(code, "cudaEventQuery");
  });
}

DeviceStatus CudaTrainingBackend::SecondsBetween(int from, int to, double& seconds) {
  seconds = 0;
  return Put([&](CudaQueue queue) {
    if (!IsMark(from) || !IsMark(to)) {
      queue.calls.Fail(
          InvalidCudaValue("marks " + std::to_string(from) + " and " + std::to_string(to)));
      return;
    }
    float milliseconds = 0;
    queue.calls.Ok(cudaEventElapsedTime(&milliseconds, events_[static_cast<std::size_t>(from)],
                                        events_[static_cast<std::size_t>(to)]),
                   "cudaEventElapsedTime");
    seconds = static_cast<double>(milliseconds) / 1e3;
  });
}

DeviceStatus CudaTrainingBackend::Wait() {
  return Put([&](CudaQueue queue) {
    queue.calls.Ok(cudaStreamSynchronize(compute_), "cudaStreamSynchronize of computation");
    queue.calls.Ok(cudaStreamSynchronize(communication_), "cudaStreamSynchronize of communication");
  });
}

}  // namespace dlc
