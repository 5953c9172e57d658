// Names of element types and formats, for messages.
#pragma once
#include <string>

#include "graph/ascend_string.h"
#include "graph/types.h"

namespace ge {

inline const char* simulatorTypeName(DataType type) {
  switch (type) {
    case DT_FLOAT: return "DT_FLOAT";
    case DT_FLOAT16: return "DT_FLOAT16";
    case DT_INT8: return "DT_INT8";
    case DT_INT16: return "DT_INT16";
    case DT_INT32: return "DT_INT32";
    case DT_INT64: return "DT_INT64";
    case DT_UINT8: return "DT_UINT8";
    case DT_UINT16: return "DT_UINT16";
    case DT_UINT32: return "DT_UINT32";
    case DT_UINT64: return "DT_UINT64";
    case DT_DOUBLE: return "DT_DOUBLE";
    case DT_BOOL: return "DT_BOOL";
    case DT_BF16: return "DT_BF16";
    case DT_STRING: return "DT_STRING";
    default: return "DT_UNDEFINED";
  }
}

inline const char* simulatorFormatName(Format format) {
  switch (format) {
    case FORMAT_NCHW: return "NCHW";
    case FORMAT_NHWC: return "NHWC";
    case FORMAT_ND: return "ND";
    case FORMAT_NC1HWC0: return "NC1HWC0";
    case FORMAT_FRACTAL_NZ: return "FRACTAL_NZ";
    case FORMAT_NCDHW: return "NCDHW";
    case FORMAT_NDHWC: return "NDHWC";
    default: return "RESERVED";
  }
}

class TypeUtils {
 public:
  static std::string DataTypeToSerialString(DataType type) { return simulatorTypeName(type); }
  static std::string FormatToSerialString(Format format) { return simulatorFormatName(format); }
  static AscendString DataTypeToAscendString(DataType type) { return AscendString(simulatorTypeName(type)); }
  static AscendString FormatToAscendString(Format format) { return AscendString(simulatorFormatName(format)); }
  static bool GetDataTypeLength(DataType type, uint32_t& length) {
    int size = GetSizeByDataType(type);
    length = size < 0 ? 0 : static_cast<uint32_t>(size);
    return size >= 0;
  }
};

}  // namespace ge
