// Tiling data. The same header is compiled twice: for the host as a class with set_ and get_, for the kernel (SIMULATOR_KERNEL_TU) as a plain
// struct with the same layout.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernel_tiling/kernel_tiling.h"

#ifdef SIMULATOR_KERNEL_TU

#define BEGIN_TILING_DATA_DEF(className) struct className {
#define TILING_DATA_FIELD_DEF(type, name) type name;
#define TILING_DATA_FIELD_DEF_ARR(type, count, name) type name[count];
#define TILING_DATA_FIELD_DEF_STRUCT(type, name) type name;
#define END_TILING_DATA_DEF };
#define REGISTER_TILING_DATA_CLASS(opType, className)

#else

namespace simulator {
void savedTiling(size_t bytes, size_t capacity, const char* name);
// After SetDataPtr the fields are in the buffer: the simulator copies them there when the object ends, or the tiling function does.
void placeTiling(const void* object, void* buffer, size_t bytes, const char* name);
void endTiling(const void* object);
}  // namespace simulator

#define BEGIN_TILING_DATA_DEF(className)                                \
  class className {                                                     \
   public:                                                              \
    className() = default;                                              \
    className(const className&) = default;                              \
    className& operator=(const className&) = default;                   \
    ~className() { ::simulator::endTiling(this); }                      \
    size_t GetDataSize() const { return sizeof(className); }            \
    const char* GetTilingClassName() const { return #className; }       \
    void SetDataPtr(void* buffer) {                                     \
      ::simulator::placeTiling(this, buffer, sizeof(className), #className); \
    }                                                                   \
    void SaveToBuffer(void* buffer, size_t capacity) const {            \
      ::simulator::savedTiling(sizeof(className), capacity, #className);     \
      std::memcpy(buffer, static_cast<const void*>(this), sizeof(className)); \
    }

#define TILING_DATA_FIELD_DEF(type, name)               \
 public:                                                \
  void set_##name(type name) { this->name##_ = name; }  \
  type get_##name() const { return this->name##_; }     \
                                                        \
 private:                                               \
  type name##_ = {};

#define TILING_DATA_FIELD_DEF_ARR(type, count, name)                                                            \
 public:                                                                                                        \
  void set_##name(const type* name) { std::memcpy(this->name##_, name, sizeof(this->name##_)); }                \
  type* get_##name() { return this->name##_; }                                                                  \
  const type* get_##name() const { return this->name##_; }                                                      \
                                                                                                                \
 private:                                                                                                       \
  type name##_[count] = {};

#define TILING_DATA_FIELD_DEF_STRUCT(type, name) \
 public:                                         \
  type name;

#define END_TILING_DATA_DEF };

#define REGISTER_TILING_DATA_CLASS(opType, className) static_assert(sizeof(className) > 0, "tiling data of " #opType);

#endif
