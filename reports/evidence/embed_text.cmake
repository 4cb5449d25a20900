# cmake -DTEXT=FILE -DOUT=FILE -DINCLUDE=HEADER -DFUNCTION=NAME -P embed_text.cmake
# Writes a C++ file that defines `std::string_view dlc::NAME()` returning the bytes of TEXT.
file(READ ${TEXT} bytes)
file(WRITE ${OUT} "// Generated from ${TEXT}.
#include \"${INCLUDE}\"

namespace dlc {

std::string_view ${FUNCTION}() {
  return R\"embedded(${bytes})embedded\";
}

}  // namespace dlc
")
