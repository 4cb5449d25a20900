// Linked in ways that a stock image could not run: see CMakeLists.txt.
#include <iostream>
#include <random>
#include <stdexcept>

int main() {
  try {
    std::random_device device;
    std::cout << device() << "\n";
    throw std::runtime_error("caught here");
  } catch (const std::runtime_error&) {
    return 0;
  }
}
