//! `cargo xtask book`: builds the pages under `docs/` as a book in `target/book`.
//!
//! The chapters follow the order of the index, `docs/README.md`. Tidy keeps the index complete, so every page is
//! included. Pages keep their paths, and linked files are copied along, so every link stays valid.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::task::{Failure, Outcome, target};
use crate::tidy::read::markdown::{Run, links, runs};
use crate::tidy::read::tree::Tree;

/// The index, whose links become the chapters of the book.
const INDEX: &str = "docs/README.md";

/// The folder of pictures, which pages show by HTML elements.
const PICTURES: &str = "docs/plots/";

/// Pages after the chapters of the index.
const LAST: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

const SETTINGS: &str = "\
[book]
title = \"Phalanx\"
language = \"en\"
src = \"src\"

[output.html]
no-section-label = true
";

/// Writes the sources of the book and runs mdbook.
pub(crate) fn run(root: &Path) -> Outcome {
    println!("{}", build_book(root)?.display());
    Ok(true)
}

fn build_book(root: &Path) -> Result<PathBuf, Failure> {
    let tree = Tree::load(root)?;
    let book = target(root).join("book");
    let source = book.join("src");
    if source.exists() {
        std::fs::remove_dir_all(&source)?;
    }
    let chapters = chapters(&tree);
    // Linked files that are not chapters.
    let next_to_pages = chapters.iter().flat_map(|path| linked(&tree, path));
    let pictures = tree.paths().filter(|path| path.starts_with(PICTURES)).map(str::to_owned);
    let next_to_pages = next_to_pages.chain(pictures);
    for path in chapters.iter().cloned().chain(next_to_pages).collect::<BTreeSet<_>>() {
        let to = source.join(&path);
        std::fs::create_dir_all(to.parent().expect("within the book"))?;
        std::fs::copy(root.join(&path), to).map_err(|error| format!("{path}: {error}"))?;
    }
    std::fs::write(source.join("SUMMARY.md"), summary(&tree, &chapters))?;
    std::fs::write(book.join("book.toml"), SETTINGS)?;
    match Command::new("mdbook").arg("build").arg(&book).status() {
        Ok(status) if status.success() => Ok(book.join("book/index.html")),
        Ok(status) => Err(format!("mdbook: {status}").into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("mdbook is not installed; try `cargo install mdbook --locked`".into())
        }
        Err(error) => Err(format!("mdbook: {error}").into()),
    }
}

/// The pages of the book, each once: the index, the pages it links to in its order, and the last pages.
fn chapters(tree: &Tree) -> Vec<String> {
    let mut chapters = vec![INDEX.to_owned()];
    let listed = linked(tree, INDEX).into_iter().filter(|path| path.ends_with(".md"));
    for path in listed.filter(|path| !LAST.contains(&path.as_str())) {
        if !chapters.contains(&path) {
            chapters.push(path);
        }
    }
    chapters.extend(LAST.map(str::to_owned));
    chapters
}

/// The table of contents in mdbook's format: the index as preface, then a chapter per page, titled with its
/// heading. The sections of the index become parts of the book.
fn summary(tree: &Tree, chapters: &[String]) -> String {
    let mut out = String::from("# Summary\n\n");
    let mut part = None;
    for path in chapters {
        let section = section(tree, path);
        if let Some(section) = section.filter(|_| section != part) {
            part = Some(section);
            let _ = writeln!(out, "\n# {section}\n");
        }
        let text = tree.text(path).unwrap_or_default();
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(path);
        let bullet = if path == INDEX { "" } else { "- " };
        let _ = writeln!(out, "{bullet}[{}]({path})", title.replace(['[', ']', '`'], ""));
    }
    out
}

/// The section of the index that first links to `chapter`.
fn section<'a>(tree: &'a Tree, chapter: &str) -> Option<&'a str> {
    let index = tree.text(INDEX).unwrap_or_default();
    let mut section = None;
    for line in index.lines() {
        section = line.strip_prefix("## ").or(section);
        if links(line).into_iter().filter_map(|link| resolved(INDEX, link)).any(|to| to == chapter)
        {
            return section;
        }
    }
    None
}

/// The files of the tree that `page` links to, in the order of the links.
fn linked(tree: &Tree, page: &str) -> Vec<String> {
    let text = tree.text(page).unwrap_or_default();
    let prose = runs(text).into_iter().filter_map(|(_, run)| match run {
        Run::Prose(prose) => Some(links(prose)),
        Run::Code(_) => None,
    });
    let paths = prose.flatten().filter_map(|link| resolved(page, link));
    paths.filter(|path| tree.text(path).is_some()).collect()
}

/// The path of a link's target from the root, if the target is in the tree.
fn resolved(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('#').next()?.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_that_is_listed_is_a_chapter_once() {
        let tree = Tree::from_files(&[
            (INDEX, "# Pages\n[b](a/b.md#top), [c](../c/README.md), `[x](x.md)`, [b](a/b.md)"),
            ("docs/a/b.md", "# The `b`\n[code](../../src/b.rs) [out](https://example.org/b.md)"),
            ("c/README.md", "no title"),
            ("src/b.rs", ""),
            ("x.md", "# Not listed"),
        ]);
        let chapters = chapters(&tree);
        assert_eq!(chapters[..3], [INDEX, "docs/a/b.md", "c/README.md"]);
        assert_eq!(chapters.len(), 3 + LAST.len());
        assert_eq!(linked(&tree, "docs/a/b.md"), ["src/b.rs"]);
        let summary = summary(&tree, &chapters);
        assert!(
            summary.starts_with("# Summary\n\n[Pages](docs/README.md)\n- [The b](docs/a/b.md)\n")
        );
        assert!(summary.contains("- [c/README.md](c/README.md)\n"));
    }
    #[test]
    fn sections_of_the_index_are_parts() {
        let index =
            "# Pages\n[a](a.md)\n## One\n- [b](b.md), [c](c.md)\n## Two\n- [a](a.md) [d](d.md)";
        let tree = Tree::from_files(&[
            (INDEX, index),
            ("docs/a.md", "# A"),
            ("docs/b.md", "# B"),
            ("docs/c.md", "# C"),
            ("docs/d.md", "# D"),
        ]);
        let summary = summary(&tree, &chapters(&tree));
        let parts = "- [A](docs/a.md)\n\n# One\n\n- [B](docs/b.md)\n- [C](docs/c.md)\n\n# Two\n\n- [D](docs/d.md)\n";
        assert!(summary.contains(parts), "{summary}");
    }
}
