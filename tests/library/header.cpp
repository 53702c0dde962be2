// The header is C++, too.
#include "stepsim.h"

const char *version_in_cpp();
const char *version_in_cpp() {
  return stepsim_version();
}
