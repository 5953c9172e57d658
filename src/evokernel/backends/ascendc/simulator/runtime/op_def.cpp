// Shared code of operator definitions.
#include "register/op_def.h"

namespace ops {

namespace {

template <class T>
T& entry(Entries<T>& entries, const char* name) {
  for (auto& known : entries) {
    if (known->simulatorName() == name) return *known;
  }
  entries.push_back(std::make_shared<T>(name));
  return *entries.back();
}

}  // namespace

OpParamDef::OpParamDef(const char* name) : name_(name) {}

OpParamDef& OpParamDef::DataType(std::vector<ge::DataType> types) {
  types_ = std::move(types);
  return *this;
}

OpParamDef& OpParamDef::Format(std::vector<ge::Format> formats) {
  formats_ = std::move(formats);
  return *this;
}

OpAttrDef::OpAttrDef(const char* name) : name_(name) {}

OpAICoreConfig::OpAICoreConfig() = default;
OpAICoreConfig::OpAICoreConfig(const char* soc) : soc_(soc) {}
OpAICoreConfig::OpAICoreConfig(const OpAICoreConfig&) = default;
OpAICoreConfig::OpAICoreConfig(OpAICoreConfig&&) = default;
OpAICoreConfig& OpAICoreConfig::operator=(const OpAICoreConfig&) = default;
OpAICoreConfig& OpAICoreConfig::operator=(OpAICoreConfig&&) = default;
OpAICoreConfig::~OpAICoreConfig() = default;
OpParamDef& OpAICoreConfig::Input(const char* name) { return entry(inputs_, name); }
OpParamDef& OpAICoreConfig::Output(const char* name) { return entry(outputs_, name); }

OpAICoreDef& OpAICoreDef::AddConfig(const char* soc) {
  configs_.push_back(OpAICoreConfig(soc));
  return *this;
}

OpAICoreDef& OpAICoreDef::AddConfig(const char* soc, const OpAICoreConfig& config) {
  configs_.push_back(config);
  configs_.back().simulatorName(soc);
  return *this;
}

OpDef::OpDef(const char* type) : type_(type) {}
OpDef::~OpDef() = default;
OpParamDef& OpDef::Input(const char* name) { return entry(inputs_, name); }
OpParamDef& OpDef::Output(const char* name) { return entry(outputs_, name); }
OpAttrDef& OpDef::Attr(const char* name) { return entry(attributes_, name); }

}  // namespace ops
