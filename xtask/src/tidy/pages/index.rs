//! Every documentation page is linked from `docs/README.md`.

use crate::tidy::read::markdown::{Run, links, runs};
use crate::tidy::{Fault, Tree};

/// The index, and the folder of the pages it lists.
const INDEX: &str = "docs/README.md";
const FOLDER: &str = "docs/";

/// Finds pages without a link in the index.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let text = tree.text(INDEX).unwrap_or_default();
    let linked: Vec<&str> = runs(text)
        .into_iter()
        .filter_map(|(_, run)| if let Run::Prose(prose) = run { Some(links(prose)) } else { None })
        .flatten()
        .map(|link| link.split('#').next().unwrap_or(link))
        .collect();
    let pages = tree.paths().filter(|path| path.ends_with(".md") && *path != INDEX);
    pages
        .filter_map(|path| Some((path, path.strip_prefix(FOLDER)?)))
        .filter(|(_, page)| !linked.iter().any(|link| link.trim_start_matches("./") == *page))
        .map(|(path, page)| {
            Fault::new(
                path,
                1,
                format!("the page is not in the index; link to `{page}` in {INDEX}"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_not_linked_are_found() {
        let index = "[a](a.md) [b](m/b.md#top), `[c](c.md)`\n[d](./d.md)";
        let tree = Tree::from_files(&[
            (INDEX, index),
            ("docs/a.md", ""),
            ("docs/m/b.md", ""),
            ("docs/c.md", ""),
            ("docs/d.md", ""),
            ("docs/m/a.md", ""),
            ("docs/picture.svg", ""),
            ("README.md", ""),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|fault| fault.path).collect();
        assert_eq!(found, ["docs/c.md", "docs/m/a.md"]);
    }
}
