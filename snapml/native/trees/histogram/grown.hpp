// What growers hand on: nodes of which as little is kept as the finished tree needs.
//
// A tree may have twice as many nodes as rows. Everything that only a limit on leaves, constraints
// or categories ask for lies apart, and is there only with them.
#pragma once

#include <memory>
#include <vector>

#include "trees/histogram/growth.hpp"

namespace snapml::native::trees {

// Rows `begin` to `end` of the final order.
struct RowSpan {
  uint32 begin, end;
};

// A node once everything below it is grown.
class GrownNode {
 public:
  explicit GrownNode(const Node& node) : left_(node.left) {
    if (node.is_split()) {
      threshold_ = node.threshold;
      link_ = node.missing_left ? ~node.column : node.column;
    } else {
      rows_ = {node.begin, node.end};
      link_ = node.subtree;
    }
  }

  bool is_split() const { return left_ >= 0; }
  // Of a split node; its children are side by side in the same list.
  int32 left() const { return left_; }
  int32 right() const { return left_ + 1; }
  int32 column() const { return missing_left() ? ~link_ : link_; }
  bool missing_left() const { return link_ < 0; }
  double threshold() const { return threshold_; }
  // Of another one; the list that begins with it, or -1.
  RowSpan rows() const { return rows_; }
  int32 subtree() const { return link_; }

 private:
  union {
    double threshold_;
    RowSpan rows_;
  };
  int32 left_, link_;
};
static_assert(sizeof(GrownNode) == 16);

// Nodes, and by node what not every tree has.
struct NodeList {
  std::vector<GrownNode> nodes;
  std::vector<double> improvements;                        // with a limit on leaves
  std::vector<Bounds> bounds;                              // with monotonic columns
  std::vector<std::shared_ptr<const CodeSet>> left_codes;  // with categories

  NodeList() = default;
  NodeList(const std::vector<Node>& grown, const GrowOptions& options)
      : nodes(grown.begin(), grown.end()) {
    const auto keep = [&](bool is_asked, auto& list, auto part) {
      if (!is_asked) return;
      list.reserve(grown.size());
      for (const Node& node : grown) list.push_back(part(node));
    };
    keep(options.most_leaves > 0, improvements, [](const Node& node) { return node.improvement; });
    keep(options.monotonic != nullptr, bounds, [](const Node& node) { return node.bounds; });
    keep(options.n_codes != nullptr, left_codes, [](const Node& node) { return node.left_codes; });
  }
};

// A node of a tree: of which list, at which place.
struct Place {
  int32 list, at;
};

struct GrownTree {
  std::vector<NodeList> lists;  // the upper part, and what is below those of its nodes that say so
  std::unique_ptr<uint32[]> rows;  // in the order of the leaves

  const GrownNode& node(Place place) const {
    return list(place).nodes[static_cast<std::size_t>(place.at)];
  }
  const NodeList& list(Place place) const { return lists[static_cast<std::size_t>(place.list)]; }

  // Follows a node that refers to a subtree to the root of that subtree.
  Place resolved(Place place) const {
    const GrownNode& found = node(place);
    return found.is_split() || found.subtree() < 0 ? place : Place{found.subtree(), 0};
  }
  Place root() const { return resolved({0, 0}); }
  Place left(Place parent) const { return resolved({parent.list, node(parent).left()}); }
  Place right(Place parent) const { return resolved({parent.list, node(parent).right()}); }

  std::size_t n_nodes() const {
    std::size_t count = 1;
    for (const NodeList& list : lists) count += list.nodes.size() - 1;
    return count;
  }

  RowSpan rows_of(Place place) const {
    Place first = place, last = place;
    while (node(first).is_split()) first = left(first);
    while (node(last).is_split()) last = right(last);
    return {node(first).rows().begin, node(last).rows().end};
  }
};

}  // namespace snapml::native::trees
