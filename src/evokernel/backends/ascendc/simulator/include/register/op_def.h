// ops::OpDef: inputs, outputs, attributes and target chips of an operator. Code that is slow to compile is in op_def.cpp.
#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../runtime/registry.h"
#include "graph/ascend_string.h"

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };
enum class FormatCheckOption { DEFAULT = 0, STRICT = 1 };
enum class FollowType { ALL = 0, DTYPE = 1, FORMAT = 2, SHAPE = 3, INVALID_TYPE };
enum class DependScope { ALL = 0, TILING = 1, INVALID_SCOPE };
enum class CommentSection { BRIEF = 0, CONSTRAINTS = 1, RESTRICTIONS = 2, THIRDPARTYFWKCOMPAT = 3, SEE = 4, CATEGORY = 5, SECTION_MAX };
enum class ItemFindStatus { ITEM_FIND = 0, ITEM_NOEXIST };

enum class ScalarType : uint32_t { UINT64 = 0, INT64, UINT32, INT32, UINT16, INT16, UINT8, INT8, FLOAT32, FLOAT16, INVALID_DTYPE };
union ScalarNum {
  uint64_t value_u64;
  int64_t value_i64;
  float value_f32;
  ScalarNum() : value_u64(0) {}
  explicit ScalarNum(uint64_t value) : value_u64(value) {}
  explicit ScalarNum(int64_t value) : value_i64(value) {}
  explicit ScalarNum(float value) : value_f32(value) {}
};
struct ScalarVar {
  ScalarType scalar_type = ScalarType::INVALID_DTYPE;
  ScalarNum scalar_num;
};

class OpParamDef {
 public:
  explicit OpParamDef(const char* name);
  OpParamDef& ParamType(Option option) {
    option_ = option;
    return *this;
  }
  OpParamDef& DataType(std::vector<ge::DataType> types);
  OpParamDef& DataTypeList(std::vector<ge::DataType> types) { return DataType(std::move(types)); }
  OpParamDef& DataTypeForBinQuery(std::vector<ge::DataType>) { return *this; }
  OpParamDef& Format(std::vector<ge::Format> formats);
  OpParamDef& FormatList(std::vector<ge::Format> formats) { return Format(std::move(formats)); }
  OpParamDef& FormatForBinQuery(std::vector<ge::Format>) { return *this; }
  OpParamDef& UnknownShapeFormat(std::vector<ge::Format>) { return *this; }
  OpParamDef& ValueDepend(Option option) {
    needsValues_ = option != IGNORE;
    return *this;
  }
  OpParamDef& ValueDepend(Option option, DependScope) { return ValueDepend(option); }
  OpParamDef& IgnoreContiguous() { return *this; }
  OpParamDef& AutoContiguous() { return *this; }
  OpParamDef& Scalar() {
    takesValues_ = true;
    return *this;
  }
  OpParamDef& ScalarList() { return Scalar(); }
  OpParamDef& To(ge::DataType) { return *this; }
  OpParamDef& To(const char*) { return *this; }
  OpParamDef& Version(uint32_t) { return *this; }
  OpParamDef& InitValue(uint64_t value) {
    initial_ = value;
    hasInitial_ = true;
    return *this;
  }
  OpParamDef& InitValue(const ScalarVar& value) { return InitValue(value.scalar_num.value_u64); }
  OpParamDef& InitValue(const std::vector<ScalarVar>& values) { return values.empty() ? *this : InitValue(values.front()); }
  OpParamDef& OutputShapeDependOnCompute() { return *this; }
  OpParamDef& Follow(const char*) { return *this; }
  OpParamDef& Follow(const char*, FollowType) { return *this; }
  OpParamDef& Comment(const char*) { return *this; }

  const std::string& simulatorName() const { return name_; }
  Option simulatorOption() const { return option_; }
  const std::vector<ge::DataType>& simulatorTypes() const { return types_; }
  const std::vector<ge::Format>& simulatorFormats() const { return formats_; }
  bool simulatorNeedsValues() const { return needsValues_; }
  bool simulatorTakesValues() const { return takesValues_; }
  bool simulatorHasInitial() const { return hasInitial_; }
  uint64_t simulatorInitial() const { return initial_; }

 private:
  std::string name_;
  Option option_ = REQUIRED;
  std::vector<ge::DataType> types_;
  std::vector<ge::Format> formats_;
  bool needsValues_ = false, hasInitial_ = false;
  bool takesValues_ = false;  // aclnn takes a number or a list of numbers
  uint64_t initial_ = 0;
};

class OpAttrDef {
 public:
  explicit OpAttrDef(const char* name);
  OpAttrDef& AttrType(Option option) {
    option_ = option;
    return *this;
  }
  OpAttrDef& Int() { return kind(gert::AttributeValue::INT); }
  OpAttrDef& Int(int64_t value) {
    value_.set(value);
    return kind(gert::AttributeValue::INT);
  }
  OpAttrDef& Float() { return kind(gert::AttributeValue::FLOAT); }
  OpAttrDef& Float(float value) {
    value_.set(static_cast<double>(value));
    return kind(gert::AttributeValue::FLOAT);
  }
  OpAttrDef& Bool() { return kind(gert::AttributeValue::BOOL); }
  OpAttrDef& Bool(bool value) {
    value_.set(static_cast<int64_t>(value));
    return kind(gert::AttributeValue::BOOL);
  }
  OpAttrDef& String() { return kind(gert::AttributeValue::STRING); }
  OpAttrDef& String(const char* value) {
    value_.text = value;
    return kind(gert::AttributeValue::STRING);
  }
  OpAttrDef& ListInt() { return kind(gert::AttributeValue::LIST_INT); }
  OpAttrDef& ListInt(std::vector<int64_t> values) {
    value_.integers = std::move(values);
    return kind(gert::AttributeValue::LIST_INT);
  }
  OpAttrDef& ListFloat() { return kind(gert::AttributeValue::LIST_FLOAT); }
  OpAttrDef& ListFloat(std::vector<float> values) {
    value_.numbers = std::move(values);
    return kind(gert::AttributeValue::LIST_FLOAT);
  }
  OpAttrDef& ListBool() { return kind(gert::AttributeValue::LIST_BOOL); }
  OpAttrDef& ListBool(std::vector<bool> values) {
    value_.integers.assign(values.begin(), values.end());
    return kind(gert::AttributeValue::LIST_BOOL);
  }
  OpAttrDef& ListListInt() { return kind(gert::AttributeValue::LIST_LIST_INT); }
  OpAttrDef& ListListInt(std::vector<std::vector<int64_t>> values) {
    value_.integerLists = std::move(values);
    return kind(gert::AttributeValue::LIST_LIST_INT);
  }
  OpAttrDef& Version(uint32_t) { return *this; }
  OpAttrDef& Comment(const char*) { return *this; }

  const std::string& simulatorName() const { return name_; }
  bool simulatorIsOptional() const { return option_ == OPTIONAL; }
  const gert::AttributeValue& simulatorValue() const { return value_; }

 private:
  OpAttrDef& kind(gert::AttributeValue::Kind kind) {
    value_.kind = kind;
    return *this;
  }
  std::string name_;
  Option option_ = REQUIRED;
  gert::AttributeValue value_;
};

// Each entry has its own allocation, so references to it stay valid.
template <class T>
using Entries = std::vector<std::shared_ptr<T>>;

class OpAICoreConfig {
 public:
  OpAICoreConfig();
  explicit OpAICoreConfig(const char* soc);
  OpAICoreConfig(const OpAICoreConfig&);
  OpAICoreConfig(OpAICoreConfig&&);
  OpAICoreConfig& operator=(const OpAICoreConfig&);
  OpAICoreConfig& operator=(OpAICoreConfig&&);
  ~OpAICoreConfig();
  OpParamDef& Input(const char* name);
  OpParamDef& Output(const char* name);
  OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
  OpAICoreConfig& DynamicFormatFlag(bool) { return *this; }
  OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
  OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
  OpAICoreConfig& NeedCheckSupportFlag(bool) { return *this; }
  OpAICoreConfig& PrecisionReduceFlag(bool) { return *this; }
  OpAICoreConfig& ExtendCfgInfo(const char*, const char*) { return *this; }

  const std::string& simulatorName() const { return soc_; }
  void simulatorName(const char* soc) { soc_ = soc; }
  const Entries<OpParamDef>& simulatorInputs() const { return inputs_; }
  const Entries<OpParamDef>& simulatorOutputs() const { return outputs_; }

 private:
  std::string soc_;
  Entries<OpParamDef> inputs_, outputs_;
};

class OpAICoreDef {
 public:
  OpAICoreDef& SetTiling(simulator::TilingFunction function) {
    functions_.tiling = function;
    return *this;
  }
  OpAICoreDef& SetTilingParse(simulator::ParseFunction function) {
    functions_.parse = function;
    return *this;
  }
  OpAICoreDef& SetCheckSupport(simulator::SupportFunction function) {
    functions_.support = function;
    return *this;
  }
  template <class Function>
  OpAICoreDef& SetOpSelectFormat(Function) {
    return *this;
  }
  template <class Function>
  OpAICoreDef& SetOpSupportInfo(Function) {
    return *this;
  }
  template <class Function>
  OpAICoreDef& SetOpSpecInfo(Function) {
    return *this;
  }
  template <class Function>
  OpAICoreDef& SetParamGeneralize(Function) {
    return *this;
  }
  OpAICoreDef& AddConfig(const char* soc);
  OpAICoreDef& AddConfig(const char* soc, const OpAICoreConfig& config);

  const simulator::HostFunctions& simulatorFunctions() const { return functions_; }
  const std::vector<OpAICoreConfig>& simulatorConfigs() const { return configs_; }

 private:
  simulator::HostFunctions functions_;
  std::vector<OpAICoreConfig> configs_;
};

class OpMC2Def {
 public:
  OpMC2Def& HcclGroup(const char*) { return *this; }
  OpMC2Def& HcclGroup(std::vector<const char*>) { return *this; }
};

class OpDef {
 public:
  explicit OpDef(const char* type);
  virtual ~OpDef();
  OpParamDef& Input(const char* name);
  OpParamDef& Output(const char* name);
  OpAttrDef& Attr(const char* name);
  OpAICoreDef& AICore() { return aicore_; }
  OpMC2Def& MC2() { return mc2_; }
  OpDef& SetInferShape(simulator::ShapeFunction function) {
    shape_ = function;
    return *this;
  }
  OpDef& SetInferDataType(simulator::TypeFunction function) {
    types_ = function;
    return *this;
  }
  template <class Function>
  OpDef& SetInferShapeRange(Function) {
    return *this;
  }
  OpDef& FormatMatchMode(FormatCheckOption) { return *this; }
  OpDef& EnableFallBack() { return *this; }
  OpDef& Comment(CommentSection, const char*) { return *this; }

  const std::string& simulatorType() const { return type_; }
  const Entries<OpParamDef>& simulatorInputs() const { return inputs_; }
  const Entries<OpParamDef>& simulatorOutputs() const { return outputs_; }
  const Entries<OpAttrDef>& simulatorAttributes() const { return attributes_; }
  const OpAICoreDef& simulatorAICore() const { return aicore_; }
  simulator::ShapeFunction simulatorShape() const { return shape_; }
  simulator::TypeFunction simulatorTypes() const { return types_; }

 private:
  std::string type_;
  Entries<OpParamDef> inputs_, outputs_;
  Entries<OpAttrDef> attributes_;
  OpAICoreDef aicore_;
  OpMC2Def mc2_;
  simulator::ShapeFunction shape_ = nullptr;
  simulator::TypeFunction types_ = nullptr;
};

}  // namespace ops

namespace simulator {

// OP_ADD registers a factory: the definition is constructed at its first use.
struct OperatorEntry {
  OperatorEntry(const char* type, MakeOperator make) { addOperator(type, make); }
};

}  // namespace simulator

#define OP_ADD(opType, ...) \
  [[maybe_unused]] static const ::simulator::OperatorEntry simulatorOperator##opType(#opType, [](const char* type) -> ::ops::OpDef* { return new opType(type); })
