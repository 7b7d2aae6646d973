#include <array>
#include <numeric>

#include "pjrt/c_api.h"
#include "pjrt/pjrt.h"

namespace tpu::pjrt {
namespace {

constexpr size_t kMaxRank = 64;

void destroy(const PJRT_Api* api, PJRT_Event* event) noexcept {
  if (event == nullptr) return;
  PJRT_Event_Destroy_Args args = {.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE, .event = event};
  discard(api, api->PJRT_Event_Destroy(&args));
}

void destroy(const PJRT_Api* api, PJRT_Buffer* buffer) noexcept {
  if (buffer == nullptr) return;
  PJRT_Buffer_Destroy_Args args = {.struct_size = PJRT_Buffer_Destroy_Args_STRUCT_SIZE, .buffer = buffer};
  discard(api, api->PJRT_Buffer_Destroy(&args));
}

struct Continuation {
  const PJRT_Api* api;
  std::function<void(Status)> run;
};

// noexcept: the frames above are the plugin's, through which nothing may unwind.
void run_continuation(PJRT_Error* error, void* user_arg) noexcept {
  const std::unique_ptr<Continuation> self(static_cast<Continuation*>(user_arg));
  self->run(to_status(self->api, error));
}

}  // namespace

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    destroy(api_, event_);
    api_ = other.api_;
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

Event::~Event() { destroy(api_, event_); }

bool Event::ready() const {
  if (event_ == nullptr) return true;
  PJRT_Event_IsReady_Args args = {.struct_size = PJRT_Event_IsReady_Args_STRUCT_SIZE, .event = event_};
  // Where even the question fails, await() has the error to tell.
  return !call<&PJRT_Api::PJRT_Event_IsReady>(api_, args).ok() || args.is_ready;
}

Status Event::await() const {
  if (event_ == nullptr) return {};
  PJRT_Event_Await_Args args = {.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE, .event = event_};
  return call<&PJRT_Api::PJRT_Event_Await>(api_, args);
}

Status Event::on_ready(std::function<void(Status)> fn) const {
  if (event_ == nullptr) {
    fn({});
    return {};
  }
  auto continuation = std::make_unique<Continuation>(Continuation{api_, std::move(fn)});
  PJRT_Event_OnReady_Args args = {
      .struct_size = PJRT_Event_OnReady_Args_STRUCT_SIZE,
      .event = event_,
      .callback = run_continuation,
      .user_arg = continuation.get(),
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Event_OnReady>(api_, args));
  continuation.release();  // the callback's now, and perhaps already freed by it
  return {};
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    destroy(api_, buffer_);
    api_ = other.api_;
    buffer_ = std::exchange(other.buffer_, nullptr);
  }
  return *this;
}

Buffer::~Buffer() { destroy(api_, buffer_); }

Result<int64_t> Buffer::device_bytes() const {
  PJRT_Buffer_OnDeviceSizeInBytes_Args args = {
      .struct_size = PJRT_Buffer_OnDeviceSizeInBytes_Args_STRUCT_SIZE,
      .buffer = buffer_,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes>(api_, args));
  return static_cast<int64_t>(args.on_device_size_in_bytes);
}

Result<Event> Buffer::to_host(void* host, size_t size) const {
  PJRT_Buffer_Dimensions_Args shape = {.struct_size = PJRT_Buffer_Dimensions_Args_STRUCT_SIZE, .buffer = buffer_};
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Buffer_Dimensions>(api_, shape));
  const size_t rank = shape.num_dims;
  if (rank > kMaxRank) return invalid("a buffer of rank " + std::to_string(rank) + " cannot be read back");

  // Asked for by name: without a layout the plugin copies in the device's own, which on a TPU need not be row-major.
  std::array<int64_t, kMaxRank> minor_to_major;
  std::iota(minor_to_major.rbegin() + (kMaxRank - rank), minor_to_major.rend(), int64_t{0});
  PJRT_Buffer_MemoryLayout row_major = {.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE};
  row_major.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  row_major.tiled = {
      .struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
      .minor_to_major = minor_to_major.data(),
      .minor_to_major_size = rank,
  };
  PJRT_Buffer_ToHostBuffer_Args args = {
      .struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE,
      .src = buffer_,
      .host_layout = rank > 1 ? &row_major : nullptr,
      .dst = host,
      .dst_size = size,
  };
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Buffer_ToHostBuffer>(api_, args));
  return Event(api_, args.event);
}

Result<Event> Buffer::ready() const {
  PJRT_Buffer_ReadyEvent_Args args = {.struct_size = PJRT_Buffer_ReadyEvent_Args_STRUCT_SIZE, .buffer = buffer_};
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Buffer_ReadyEvent>(api_, args));
  return Event(api_, args.event);
}

Result<void*> Buffer::host_pointer() const {
  PJRT_Buffer_IsOnCpu_Args on_cpu = {.struct_size = PJRT_Buffer_IsOnCpu_Args_STRUCT_SIZE, .buffer = buffer_};
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Buffer_IsOnCpu>(api_, on_cpu));
  if (!on_cpu.is_on_cpu) return Status(Code::kUnimplemented, "the host cannot read this device's memory in place");
  PJRT_Buffer_UnsafePointer_Args args = {.struct_size = PJRT_Buffer_UnsafePointer_Args_STRUCT_SIZE, .buffer = buffer_};
  TPU_RETURN_IF_ERROR(call<&PJRT_Api::PJRT_Buffer_UnsafePointer>(api_, args));
  return reinterpret_cast<void*>(args.buffer_pointer);
}

}  // namespace tpu::pjrt
