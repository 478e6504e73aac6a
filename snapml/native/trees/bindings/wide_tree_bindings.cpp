// Trees that grow on rows of bins in two bytes.
#include "trees/bindings/tree_growing.hpp"

namespace snapml::native {

void bind_wide_trees(nb::module_& m);
void bind_wide_trees(nb::module_& m) { bind_growing<trees::WideRows>(m); }

}  // namespace snapml::native
