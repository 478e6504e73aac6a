// Stands in for libFuzzer where there is only g++: runs the files it is given, and so many random
// changes of them. Prints how many inputs it has run.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

const std::string kLetters = "0123456789.:-+eE# \n\r\tqidnaf";

std::string changed(std::string text, std::mt19937& random) {
  for (int n = static_cast<int>(random() % 4) + 1; n > 0; --n) {
    const std::size_t place = text.empty() ? 0 : random() % text.size();
    const char letter =
        random() % 8 == 0 ? static_cast<char>(random()) : kLetters[random() % kLetters.size()];
    switch (random() % 4) {
      case 0:
        text.insert(place, 1, letter);
        break;
      case 1:
        text.insert(place, text.substr(place, random() % 30));
        break;
      case 2:
        text.erase(place, random() % 10);
        break;
      default:
        if (!text.empty()) text[place] = letter;
    }
  }
  return text;
}

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

}  // namespace

int main(int argc, char** argv) {
  const int n_changes = std::atoi(argv[1]);
  std::mt19937 random(1);
  long n_run = 0;
  for (int file = 2; file < argc; ++file) {
    std::ifstream stream(argv[file], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    run(text);
    std::string next = text;
    for (int k = 0; k < n_changes; ++k) {
      next = changed(k % 10 == 0 ? text : next, random);
      run(next);
    }
    n_run += n_changes + 1;
  }
  std::printf("%ld\n", n_run);
}
