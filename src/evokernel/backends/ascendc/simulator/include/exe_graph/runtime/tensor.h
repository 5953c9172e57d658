// gert::Tensor and its description.
#pragma once
#include "exe_graph/runtime/storage_shape.h"

namespace gert {

class StorageFormat {
 public:
  StorageFormat(ge::Format format = ge::FORMAT_ND) : format_(format) {}
  ge::Format GetOriginFormat() const { return format_; }
  ge::Format GetStorageFormat() const { return format_; }

 private:
  ge::Format format_;
};

class CompileTimeTensorDesc {
 public:
  explicit CompileTimeTensorDesc(ge::DataType type = ge::DT_FLOAT, ge::Format format = ge::FORMAT_ND) : type_(type), format_(format) {}
  ge::DataType GetDataType() const { return type_; }
  const StorageFormat& GetFormat() const { return format_; }
  ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }
  ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }

 private:
  ge::DataType type_;
  StorageFormat format_;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Shape& shape, ge::DataType type, const void* data) : shape_(shape), desc_(type), data_(data) {}
  const Shape& GetOriginShape() const { return shape_.GetOriginShape(); }
  const Shape& GetStorageShape() const { return shape_.GetStorageShape(); }
  const StorageShape& GetShape() const { return shape_; }
  int64_t GetShapeSize() const { return GetStorageShape().GetShapeSize(); }
  ge::DataType GetDataType() const { return desc_.GetDataType(); }
  ge::Format GetOriginFormat() const { return desc_.GetOriginFormat(); }
  ge::Format GetStorageFormat() const { return desc_.GetStorageFormat(); }
  const CompileTimeTensorDesc& simulatorDescription() const { return desc_; }
  size_t GetSize() const {
    int64_t bytes = ge::GetSizeInBytes(GetShapeSize(), GetDataType());
    return bytes < 0 ? 0 : static_cast<size_t>(bytes);
  }
  // The values are available only for inputs with ValueDepend, as on the device.
  template <class T>
  const T* GetData() const {
    return static_cast<const T*>(data_);
  }
  const void* GetAddr() const { return data_; }

 private:
  StorageShape shape_;
  CompileTimeTensorDesc desc_;
  const void* data_ = nullptr;
};

}  // namespace gert
