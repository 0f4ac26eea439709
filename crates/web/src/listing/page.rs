//! A directory listing as HTML.

use std::fmt::Write;

use phalanx::fs::{DirEntry, DirEntryKind};

use crate::listing::MAX_ENTRIES;
use crate::listing::order::{By, Order};
use crate::listing::words::{escape, segment, size, time};

const STYLE: &str = include_str!("page.css");

/// Renders the page for the directory at `path`.
pub(super) fn write(path: &[u8], names: &[DirEntry], cut: bool, order: Order) -> Vec<u8> {
    let mut out = String::with_capacity(4096 + 200 * names.len());
    out.push_str(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>",
    );
    match path {
        [] => out.push('/'),
        path => escape(&mut out, path),
    }
    let _ = write!(out, "</title>\n<style>\n{STYLE}</style>\n<main>\n<h1>");
    crumbs(&mut out, path);
    out.push_str("</h1>\n<table>\n<thead>\n<tr>");
    for (by, label) in [(By::Name, "Name"), (By::Size, "Size"), (By::Time, "Modified")] {
        column(&mut out, by, label, order);
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    if !path.is_empty() {
        out.push_str(
            "<tr class=\"up\"><td><a href=\"../\">Parent directory</a></td><td></td><td></td></tr>\n",
        );
    }
    for named in names {
        row(&mut out, named);
    }
    out.push_str("</tbody>\n</table>\n");
    foot(&mut out, names, cut);
    out.push_str("</main>\n");
    out.into_bytes()
}

/// The path with a link for each of its parent directories.
fn crumbs(out: &mut String, path: &[u8]) {
    let parts: Vec<_> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    let link = |out: &mut String, above: usize, text: &[u8]| {
        let href = if above == 0 { "./".to_owned() } else { "../".repeat(above) };
        let here = if above == 0 { " aria-current=\"page\"" } else { "" };
        let _ = write!(out, "<a href=\"{href}\"{here}>");
        escape(out, text);
        out.push_str("</a>");
    };
    link(out, parts.len(), "⌂".as_bytes());
    for (n, part) in parts.iter().enumerate() {
        out.push_str("<i>/</i><wbr>");
        link(out, parts.len() - 1 - n, part);
    }
}

/// Column heading: a link to sort by this column, or to reverse the order.
fn column(out: &mut String, by: By, label: &str, order: Order) {
    let current = order.by == by;
    let sort = match (current, order.descending) {
        (true, false) => " aria-sort=\"ascending\"",
        (true, true) => " aria-sort=\"descending\"",
        (false, _) => "",
    };
    // Sizes and times start in descending order.
    let descending = if current { !order.descending } else { by != By::Name };
    let query = Order { by, descending }.query().replace('&', "&amp;");
    let _ = write!(out, "<th{sort}><a href=\"{query}\">{label}</a></th>");
}

fn row(out: &mut String, named: &DirEntry) {
    let (class, slash) = match named.kind {
        DirEntryKind::Directory => ("d", "/"),
        DirEntryKind::File => ("f", ""),
        DirEntryKind::Link | DirEntryKind::Other => ("l", ""),
    };
    // Without the prefix `./`, a browser could read a name as a scheme or an absolute path.
    let _ = write!(out, "<tr class=\"{class}\"><td><a href=\"./{}{slash}\">", segment(&named.name));
    escape(out, &named.name);
    let _ = write!(out, "{slash}</a></td><td>");
    if named.kind == DirEntryKind::File {
        let _ = write!(out, "<data value=\"{}\">{}</data>", named.length, size(named.length));
    }
    let (short, long) = time(named.modified_ns);
    let _ = writeln!(out, "</td><td><time datetime=\"{long}\">{short}</time></td></tr>");
}

/// Number of entries by kind.
fn foot(out: &mut String, names: &[DirEntry], cut: bool) {
    let count = |kind| names.iter().filter(|named| named.kind == kind).count();
    let (directories, all) = (count(DirEntryKind::Directory), names.len());
    let files: u64 = names.iter().filter(|n| n.kind == DirEntryKind::File).map(|n| n.length).sum();
    let plural =
        |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    out.push_str("<p>");
    if cut {
        let _ = write!(out, "<strong>This listing shows only {MAX_ENTRIES} names.</strong> ");
    }
    let _ = writeln!(
        out,
        "{}, {}, {}</p>",
        plural(directories, "directory", "directories"),
        plural(all - directories, "file", "files"),
        size(files)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, names: &[(&str, DirEntryKind)], cut: bool, query: &str) -> String {
        let names: Vec<_> = names
            .iter()
            .map(|(name, kind)| DirEntry {
                name: name.as_bytes().to_vec(),
                kind: *kind,
                length: 2048,
                modified_ns: 0,
            })
            .collect();
        String::from_utf8(write(path.as_bytes(), &names, cut, Order::of(Some(query)))).unwrap()
    }

    #[test]
    fn names_are_escaped_and_links_are_relative() {
        let bad = "\"><script>alert(1)</script>";
        let names = [
            (bad, DirEntryKind::File),
            ("javascript:alert(1)", DirEntryKind::File),
            ("a/", DirEntryKind::Link),
        ];
        let page = page(&format!("x/{bad}"), &names, false, "");
        assert!(!page.contains("<script") && !page.contains("href=\"javascript"), "{page}");
        assert!(page.contains("href=\"./javascript%3Aalert%281%29\""), "{page}");
        assert!(page.contains("&quot;&gt;&lt;script&gt;alert(1)"), "{page}");
        for link in page.split("href=\"").skip(1) {
            assert!(["./", "../", "?"].iter().any(|start| link.starts_with(start)), "{link}");
        }
    }

    #[test]
    fn links_to_parent_directories() {
        let deep = page("a/b", &[], false, "");
        assert!(
            deep.contains("<a href=\"../../\">⌂</a><i>/</i><wbr><a href=\"../\">a</a>"),
            "{deep}"
        );
        assert!(deep.contains("<a href=\"./\" aria-current=\"page\">b</a>"), "{deep}");
        assert!(deep.contains("Parent directory"));
        assert!(!page("", &[], false, "").contains("Parent directory"), "the root has none");
    }

    #[test]
    fn headings_reverse_the_order() {
        let text = page("", &[], false, "sort=size");
        assert!(
            text.contains("<th aria-sort=\"ascending\"><a href=\"?sort=size&amp;order=desc\">")
        );
        assert!(text.contains("<th><a href=\"?sort=name\">"), "{text}");
        assert!(text.contains("<th><a href=\"?sort=time&amp;order=desc\">"), "{text}");
        assert!(page("", &[], false, "sort=time&order=desc").contains("<a href=\"?sort=time\">"));
    }

    #[test]
    fn truncation_is_mentioned() {
        let names = [("a", DirEntryKind::File), ("d", DirEntryKind::Directory)];
        let text = page("", &names, true, "");
        assert!(text.contains("This listing shows only 10000 names"), "{text}");
        assert!(text.contains("1 directory, 1 file, 2.0 KiB"), "{text}");
        assert!(!page("", &names, false, "").contains("Only"));
    }
}
