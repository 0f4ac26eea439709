//! `cargo xtask imports`: draws the imports between the files of core as a matrix in `docs/plots/core-imports-*.svg`.
//!
//! Rows and columns are the files in the order of the layers. Within a layer, a file comes after those that it imports,
//! so a mark on the upper side of the diagonal is an import downwards. The left half of the picture, the state before
//! the layers, is kept.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::module_cycles::{Imports, imports, reachable};
use super::module_layers::CRATES;
use super::read::tree::Tree;
use crate::task::Outcome;

/// The layered crate whose imports are drawn.
const FOLDER: &str = "crates/core";

/// The variants of the picture: name, and the colours of lines, of imports upwards and of imports downwards.
const VARIANTS: [(&str, &str, &str, &str); 2] =
    [("light", "#d0d7de", "#bc4c00", "#0969da"), ("dark", "#3d444d", "#ff9d5c", "#6cb0ff")];

/// The beginning of the part that is drawn.
const START: &str = "<g id=\"after\">\n";

/// The upper left corner of the matrix, and its side.
const LEFT: f64 = 340.0;
const TOP: f64 = 40.0;
const SIDE: f64 = 280.0;

/// Draws all variants.
pub(crate) fn run(root: &Path) -> Outcome {
    println!("imports: {}", draw(root)?);
    Ok(true)
}

fn draw(root: &Path) -> std::io::Result<String> {
    let tree = Tree::load(root)?;
    let (_, imports) = imports(&tree, &format!("{FOLDER}/src/"));
    let picture = Picture::new(&imports);
    for (name, line, up, down) in VARIANTS {
        let path = root.join(format!("docs/plots/core-imports-{name}.svg"));
        let text = std::fs::read_to_string(&path)?;
        let before = text.split_once(START).map_or("", |(before, _)| before);
        std::fs::write(path, format!("{before}{START}{}", picture.svg(line, up, down)))?;
    }
    Ok(picture.summary())
}

/// The matrix: files in order, with their layers, and the imports between them.
struct Picture {
    /// The module directly under the crate root, of each file.
    folders: Vec<String>,
    /// Importing and imported file, by their place in the order.
    edges: Vec<(usize, usize)>,
    largest_cycle: usize,
}

impl Picture {
    fn new(imports: &Imports) -> Self {
        let layers =
            CRATES.iter().find(|layers| layers.folder == FOLDER).map_or(&[][..], |it| it.layers);
        let mut order: Vec<&String> = Vec::new();
        for layer in layers {
            let mut left: BTreeSet<&String> =
                imports.keys().filter(|module| layer.contains(&folder(module))).collect();
            while let Some(first) = left.first().copied() {
                // An import within a cycle does not count.
                let waits_for = |module: &String, other: &String| {
                    left.contains(other) && !reachable(other, imports).contains(module)
                };
                let is_ready = |module: &&&String| {
                    !imports[**module].iter().any(|other| waits_for(module, other))
                };
                let next = left.iter().find(is_ready).copied().unwrap_or(first);
                left.remove(next);
                order.push(next);
            }
        }
        let place = |module: &String| order.iter().position(|it| *it == module);
        let edges = order.iter().enumerate().flat_map(|(from, module)| {
            imports[*module].iter().filter_map(move |target| Some((from, place(target)?)))
        });
        let cycle = |module: &&String| {
            let others = reachable(module, imports);
            others.iter().filter(|other| reachable(other, imports).contains(module)).count()
        };
        Self {
            edges: edges.collect(),
            largest_cycle: order.iter().map(cycle).max().unwrap_or(0),
            folders: order.iter().map(|module| folder(module).to_owned()).collect(),
        }
    }

    /// Imports of files that come later.
    fn upwards(&self) -> usize {
        self.edges.iter().filter(|(from, to)| to > from).count()
    }

    fn summary(&self) -> String {
        let (files, all) = (self.folders.len(), self.edges.len());
        let (cycle, up) = (self.largest_cycle, self.upwards());
        format!("{files} files, largest cycle {cycle}; {up} of {all} imports upwards")
    }

    fn svg(&self, line: &str, up: &str, down: &str) -> String {
        let (files, all) = (self.folders.len(), self.edges.len());
        let unit = SIDE / files as f64;
        let bottom = TOP + SIDE;
        let (cycle, upwards, right) = (self.largest_cycle, self.upwards(), LEFT + SIDE);
        let mut svg = format!(
            "<text x=\"{LEFT}\" y=\"18\" font-weight=\"600\">after: {files} files, largest cycle {cycle}</text>\
             <text x=\"{LEFT}\" y=\"33\">upwards: {upwards} of {all} imports</text>\n\
             <rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"none\" stroke=\"{line}\"/>\n\
             <path d=\"M{LEFT} {bottom}L{right} {TOP}\" stroke=\"{line}\"/>\n"
        );
        for (colour, is_up) in [(up, true), (down, false)] {
            let marks = self.edges.iter().filter(|(from, to)| (to > from) == is_up);
            let marks: String = marks
                .map(|(from, to)| {
                    let (x, y) = (LEFT + *to as f64 * unit, bottom - (*from + 1) as f64 * unit);
                    format!("M{x:.1} {y:.1}h2v2h-2z")
                })
                .collect();
            let _ = writeln!(svg, "<path fill=\"{colour}\" d=\"{marks}\"/>");
        }
        let mut start = 0;
        for files in self.folders.chunk_by(|one, other| one == other) {
            let middle = bottom - (start as f64 + files.len() as f64 / 2.0) * unit + 3.0;
            start += files.len();
            let end = bottom - start as f64 * unit;
            // The root files have no folder, and share one line.
            if files.len() > 1 {
                let _ = writeln!(
                    svg,
                    "<path d=\"M{LEFT} {end:.1}H{right}\" stroke=\"{line}\"/>\n\
                     <text x=\"{}\" y=\"{middle:.1}\" font-size=\"9\">{}</text>",
                    right + 5.0,
                    files[0]
                );
            }
        }
        svg + "</g>\n<text x=\"20\" y=\"340\" font-size=\"11\">row: importing file, column: imported file; above \
               the diagonal (blue) downwards, below it (orange) upwards</text></svg>\n"
    }
}

/// The module directly under the crate root that contains `module`.
fn folder(module: &str) -> &str {
    module.split("::").nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_after_those_they_import_in_the_order_of_the_layers() {
        let imports = [
            ("crate::queue::a", vec!["crate::queue::b", "crate::error"]),
            ("crate::queue::b", vec![]),
            ("crate::error", vec!["crate::queue::b"]),
            ("crate::handle::x", vec!["crate::handle::y"]),
            ("crate::handle::y", vec!["crate::handle::x", "crate::queue::a"]),
        ];
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let imports: Imports =
            imports.into_iter().map(|(name, targets)| (name.to_owned(), owned(targets))).collect();
        let picture = Picture::new(&imports);
        assert_eq!(picture.folders, ["error", "queue", "queue", "handle", "handle"]);
        assert_eq!(picture.summary(), "5 files, largest cycle 2; 2 of 6 imports upwards");
    }
}
