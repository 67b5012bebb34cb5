//! Patterns by their segments, so that the number of patterns does not matter to a request: a path without parameters costs one look
//! into a table, and any other one for each segment, whatever else is in it.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::segment::Segment;
use super::{Mixed, Pattern};

/// Values by pattern. The values of one shape are kept in the order in which they came.
#[derive(Clone, Debug)]
pub struct Tree<T> {
    nodes: Vec<Node<T>>,
    /// Where the patterns without parameters end, by their whole text: no other pattern goes before them.
    whole: HashMap<Box<str>, usize, FixedState>,
}

/// What can follow the segments that lead here. Children are places in [`Tree::nodes`].
#[derive(Clone, Debug)]
struct Node<T> {
    // The names are the operator's, so nobody can choose them to meet in one slot.
    literals: HashMap<Box<str>, usize, FixedState>,
    /// The most literal bytes first.
    mixed: Vec<(Mixed, usize)>,
    any: Option<usize>,
    /// The values of patterns that end here.
    here: Vec<T>,
}

impl<T> Node<T> {
    fn new() -> Self {
        Node { literals: HashMap::default(), mixed: Vec::new(), any: None, here: Vec::new() }
    }
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Tree { nodes: vec![Node::new()], whole: HashMap::default() }
    }
}

impl<T> Tree<T> {
    /// The values of this pattern's shape, to add one.
    pub fn entry(&mut self, pattern: &Pattern) -> &mut Vec<T> {
        let mut at = 0;
        for segment in &pattern.segments {
            at = self.child(at, segment);
        }
        if !pattern.has_parameters() {
            self.whole.insert(pattern.shape().into(), at);
        }
        &mut self.nodes[at].here
    }

    fn child(&mut self, at: usize, segment: &Segment) -> usize {
        let new = self.nodes.len();
        let node = &mut self.nodes[at];
        let child = match segment {
            Segment::Literal(text) => *node.literals.entry(text.as_str().into()).or_insert(new),
            Segment::Any(_) | Segment::Rest(_) => *node.any.get_or_insert(new),
            Segment::Mixed(mixed) => {
                let shape = mixed.shape();
                match node.mixed.iter().find(|(known, _)| known.shape() == shape) {
                    Some((_, child)) => *child,
                    None => {
                        // Of two that weigh the same, the text decides, so that the order in a file does not.
                        let rank = |mixed: &Mixed| (usize::MAX - mixed.weight(), mixed.shape());
                        let place = node.mixed.partition_point(|(known, _)| rank(known) < rank(mixed));
                        node.mixed.insert(place, (mixed.clone(), new));
                        new
                    }
                }
            }
        };
        if child == new {
            self.nodes.push(Node::new());
        }
        child
    }

    /// What `take` makes of the first value that it wants, of all whose pattern matches this path: where two patterns differ, the one
    /// that is literal goes first, and the leftmost difference counts (P2).
    pub fn find<'t, R>(&'t self, path: &str, mut take: impl FnMut(&'t T) -> Option<R>) -> Option<R> {
        let whole = self.whole.get(path).copied();
        if let Some(at) = whole
            && let Some(found) = self.nodes[at].here.iter().find_map(&mut take)
        {
            return Some(found);
        }
        let rest = path.strip_prefix('/').unwrap_or(path);
        self.below(0, Some(rest), whole, &mut take)
    }

    /// What is taken below this node, but for the node that was asked already.
    fn below<'t, R>(
        &'t self,
        at: usize,
        rest: Option<&str>,
        asked: Option<usize>,
        take: &mut impl FnMut(&'t T) -> Option<R>,
    ) -> Option<R> {
        let node = &self.nodes[at];
        let Some(rest) = rest else {
            return if asked == Some(at) { None } else { node.here.iter().find_map(take) };
        };
        let (segment, rest) =
            rest.split_once('/').map_or((rest, None), |(segment, rest)| (segment, Some(rest)));
        if let Some(child) = node.literals.get(segment)
            && let Some(found) = self.below(*child, rest, asked, take)
        {
            return Some(found);
        }
        for (mixed, child) in &node.mixed {
            if mixed.matches(segment)
                && let Some(found) = self.below(*child, rest, asked, take)
            {
                return Some(found);
            }
        }
        let any = node.any.filter(|_| !segment.is_empty())?;
        self.below(any, rest, asked, take)
    }

    /// Hands over every value whose pattern has a request in common with this one.
    pub fn meeting<'t>(&'t self, pattern: &Pattern, mut each: impl FnMut(&'t T)) {
        let mut reached = vec![0];
        for segment in &pattern.segments {
            reached = reached.into_iter().flat_map(|at| self.nodes[at].children(segment)).collect();
        }
        reached.into_iter().flat_map(|at| &self.nodes[at].here).for_each(&mut each);
    }
}

impl<T> Node<T> {
    /// The children that some segment of a request leads to, which this one matches, too.
    fn children(&self, segment: &Segment) -> Vec<usize> {
        let mut children: Vec<usize> = match segment {
            Segment::Literal(text) => self.literals.get(text.as_str()).copied().into_iter().collect(),
            wide => {
                let matched = self.literals.iter().filter(|(text, _)| wide.matches(text));
                matched.map(|(_, child)| *child).collect()
            }
        };
        let meets = |mixed: &Mixed| Segment::Mixed(mixed.clone()).meets(segment).is_some();
        children.extend(self.mixed.iter().filter(|(mixed, _)| meets(mixed)).map(|(_, child)| *child));
        let is_empty = matches!(segment, Segment::Literal(text) if text.is_empty());
        children.extend(self.any.filter(|_| !is_empty));
        children
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(patterns: &[&str]) -> Tree<String> {
        let mut tree = Tree::default();
        for text in patterns {
            tree.entry(&Pattern::parse(text).unwrap()).push((*text).to_owned());
        }
        tree
    }

    #[test]
    fn the_leftmost_literal_wins_whatever_the_order_in_the_file_p2() {
        let mut patterns = [
            "/s/{y}/b",
            "/s/a/{x}",
            "/{x}/a/b",
            "/r/{base}...{head}",
            "/r/{any}",
            "/r/v{n}.json",
            "/r/{file}.json",
            "/s/a/{x}/deep",
        ];
        for _ in 0..2 {
            let tree = tree(&patterns);
            for (path, wanted) in [
                ("/s/a/b", Some("/s/a/{x}")),
                ("/s/c/b", Some("/s/{y}/b")),
                ("/s/c/d", None),
                ("/t/a/b", Some("/{x}/a/b")),
                ("/s/a/b/deep", Some("/s/a/{x}/deep")),
                ("/s/a/b/other", None),
                ("/s//b", None),
                ("/s/a/", None),
                ("/r/main...dev", Some("/r/{base}...{head}")),
                ("/r/...dev", Some("/r/{any}")),
                ("/r/v1.json", Some("/r/v{n}.json")),
                ("/r/a.json", Some("/r/{file}.json")),
                ("/r/.json", Some("/r/{any}")),
            ] {
                assert_eq!(tree.find(path, Some).map(String::as_str), wanted, "{path}");
            }
            patterns.reverse();
        }
    }

    #[test]
    fn what_is_not_wanted_gives_way_to_the_next_p2() {
        let tree = tree(&["/a/me", "/a/{id}"]);
        let mut seen = Vec::new();
        let none: Option<()> = tree.find("/a/me", |text| {
            seen.push(text.as_str());
            None
        });
        assert_eq!((none, seen), (None, vec!["/a/me", "/a/{id}"]));
    }

    #[test]
    fn a_tree_finds_every_pattern_that_another_one_meets_and_no_other() {
        let patterns = ["/a", "/a/{b}", "/a/b", "/{x}/b", "/a/{b}.json", "/a/", "/a/{b}/c", "/b/x{y}"];
        let tree = tree(&patterns);
        for text in patterns.into_iter().chain(["/{x}/{y}", "/a/v.json", "/{x}/xx", "/c"]) {
            let pattern = Pattern::parse(text).unwrap();
            let mut met = Vec::new();
            tree.meeting(&pattern, |text| met.push(text.as_str()));
            let mut wanted: Vec<_> = patterns.to_vec();
            wanted
                .retain(|other| Pattern::parse(other).unwrap().meets(&pattern) != super::super::Meets::Never);
            met.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(met, wanted, "{text}");
        }
    }

    #[test]
    fn a_tree_agrees_with_its_patterns_one_by_one() {
        let patterns = ["/", "/a", "/a/", "/a/{b}", "/a/{b}/c", "/{x}", "/a/x{y}z", "/{p}.{q}"];
        let tree = tree(&patterns);
        for path in
            ["/", "/a", "/a/", "/a/b", "/a/b/c", "/b", "/a/xyz", "/a/xz", "/p.q", "/.q", "/p.", "/a/b/"]
        {
            let mut found = Vec::new();
            let _: Option<()> = tree.find(path, |text| {
                found.push(text.as_str());
                None
            });
            let mut wanted: Vec<_> = patterns.to_vec();
            wanted.retain(|text| Pattern::parse(text).unwrap().matches(path));
            found.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{path}");
        }
    }
}
