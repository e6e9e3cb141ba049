// Handlers for test_ffi.py, against the headers of jax.ffi.include_dir().

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Scale(float factor, std::string_view mode, ffi::Span<const int64_t> added, ffi::Buffer<ffi::F32> x,
                        ffi::ResultBuffer<ffi::F32> y) {
  if (mode != "scale") return ffi::Error::InvalidArgument("there is no mode " + std::string(mode));
  float more = 0;
  for (int64_t each : added) more += each;
  for (size_t i = 0; i < x.element_count(); i++) y->typed_data()[i] = x.typed_data()[i] * factor + more;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
                              ffi::Ffi::Bind()
                                  .Attr<float>("factor")
                                  .Attr<std::string_view>("mode")
                                  .Attr<ffi::Span<const int64_t>>("added")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// Writes the element type, the rank and the dimensions of every operand to its result.
static ffi::Error Describe(ffi::RemainingArgs args, ffi::RemainingRets rets) {
  for (size_t i = 0; i < args.size(); i++) {
    auto x = args.get<ffi::AnyBuffer>(i);
    auto y = rets.get<ffi::Buffer<ffi::S64>>(i);
    if (!x || !y) return ffi::Error::Internal("an operand is none");
    int64_t *out = (*y)->typed_data();
    out[0] = static_cast<int64_t>(x->element_type());
    out[1] = x->dimensions().size();
    for (size_t d = 0; d < x->dimensions().size(); d++) out[2 + d] = x->dimensions()[d];
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(describe, Describe, ffi::Ffi::Bind().RemainingArgs().RemainingRets());

static ffi::Error Attributes(bool b, int8_t i8, uint16_t u16, int32_t i32, int64_t i64, double f64,
                             ffi::Span<const float> list, ffi::ResultBuffer<ffi::F64> y) {
  double sum = (b ? 1 : 0) + i8 + u16 + i32 + i64 + f64;
  for (float each : list) sum += each;
  *y->typed_data() = sum;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(attributes, Attributes,
                              ffi::Ffi::Bind()
                                  .Attr<bool>("b")
                                  .Attr<int8_t>("i8")
                                  .Attr<uint16_t>("u16")
                                  .Attr<int32_t>("i32")
                                  .Attr<int64_t>("i64")
                                  .Attr<double>("f64")
                                  .Attr<ffi::Span<const float>>("list")
                                  .Ret<ffi::Buffer<ffi::F64>>());

// What a dictionary holds: its number, how many entries it has, and how long its string is.
static ffi::Error Settings(ffi::Dictionary settings, ffi::ResultBuffer<ffi::F64> y) {
  auto number = settings.get<double>("number");
  if (!number.has_value()) return number.error();
  auto name = settings.get<std::string_view>("name");
  if (!name.has_value()) return name.error();
  *y->typed_data() = *number + 10 * settings.size() + 100 * name->size();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(settings, Settings,
                              ffi::Ffi::Bind().Attr<ffi::Dictionary>("settings").Ret<ffi::Buffer<ffi::F64>>());

// A state that one stage leaves and another finds: it counts the calls.
struct Counter {
  explicit Counter(int64_t first) : value(first) {}
  std::atomic<int64_t> value;
  static ffi::TypeId id;
  static ffi::TypeInfo info;
};
ffi::TypeId Counter::id = {};
ffi::TypeInfo Counter::info = ffi::MakeTypeInfo<Counter>();

extern "C" void *counter_type_id() { return &Counter::id; }
extern "C" void *counter_type_info() { return &Counter::info; }

static ffi::ErrorOr<std::unique_ptr<Counter>> MakeCounter(int64_t first) { return std::make_unique<Counter>(first); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(make_counter, MakeCounter, ffi::Ffi::BindInstantiate().Attr<int64_t>("first"));

static ffi::Error Count(Counter *counter, ffi::ResultBuffer<ffi::S64> y) {
  *y->typed_data() = counter->value++;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(count, Count,
                              ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Ret<ffi::Buffer<ffi::S64>>());

// Squares on the threads of the runtime, through scratch memory; it is done when a future says so.
static ffi::Future Square(ffi::ThreadPool pool, ffi::ScratchAllocator scratch, ffi::Buffer<ffi::F32> x,
                          ffi::ResultBuffer<ffi::F32> y) {
  ffi::CountDownPromise promise(x.element_count());
  ffi::Future future(promise);
  auto memory = scratch.Allocate(x.size_bytes(), 64);
  if (!memory || reinterpret_cast<uintptr_t>(*memory) % 64) std::abort();
  std::memcpy(*memory, x.typed_data(), x.size_bytes());
  const float *in = x.typed_data();
  float *out = y->typed_data();
  for (size_t i = 0; i < x.element_count(); i++)
    pool.Schedule([=]() mutable {
      if (in[i] < 0)
        promise.CountDown(1, ffi::Error(ffi::ErrorCode::kAborted, "negative"));
      else {
        out[i] = in[i] * in[i];
        promise.CountDown(1);
      }
    });
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(square, Square,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

static ffi::Error NeedsStream(void *stream) {
  (void)stream;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(needs_stream, NeedsStream, ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void *>>());
