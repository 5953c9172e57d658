#!/bin/bash
# The installer of a fake operator package.
into=""
quiet=""
for word in "$@"; do
  case "$word" in
    --quiet) quiet=yes ;;
    --install-path=*) into="${word#--install-path=}" ;;
    *) echo "unknown option $word"; exit 1 ;;
  esac
done
[ -n "$quiet" ] && [ -n "$into" ] || { echo "it would ask questions, or install into the toolkit"; exit 1; }
here="$(cd "$(dirname "$0")" && pwd)"
case "$(cat "$here/installer_mode")" in
  fail) echo "[ERROR] the package could not be unpacked"; exit 1 ;;
  empty) exit 0 ;;
esac
vendor="$into/vendors/$(cat "$here/vendor_name")"
mkdir -p "$vendor/op_api/lib" "$vendor/bin"
cp "$here"/*.so "$vendor/op_api/lib/"
echo "export ASCEND_CUSTOM_OPP_PATH=$vendor:\$ASCEND_CUSTOM_OPP_PATH" > "$vendor/bin/set_env.bash"
