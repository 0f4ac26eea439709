//! Maps each instruction of the program to its stage, and to the object that it allocates.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::c::function::Function;
use crate::c::lines::Lines;
use crate::memwalk::program::Program;
use crate::model::{Analysis, ENTRY, Place};

/// The role of a line in the analysis.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meaning {
    /// The stages whose code contains the line: an index of [`Code::stages`].
    pub(super) stages: Option<usize>,
    /// The object that the line allocates.
    pub(super) object: Option<usize>,
    /// Whether the line is in a function that allocates for its caller.
    is_allocator: bool,
}

/// The instructions of a program.
#[derive(Debug)]
pub(super) struct Code {
    lines: Lines,
    /// By row of the line table.
    meanings: Vec<Meaning>,
    /// Sets of stages that share code, such as those of consecutive `case` labels.
    pub(super) stages: Vec<Vec<usize>>,
}

impl Code {
    /// Finds the stages and objects of an analysis in a line table.
    ///
    /// A function of a stage counts with all its lines. A `case` counts with its first line only, because the compiler
    /// merges code at the ends of cases; its stage lasts until another begins.
    pub(super) fn new(lines: Lines, program: &Program<'_>, analysis: &Analysis) -> Self {
        let mut this = Self {
            meanings: vec![Meaning::default(); lines.rows.len()],
            lines,
            stages: Vec::new(),
        };
        // Stages by the file and the lines of their code; those of a whole function come first.
        let mut found: BTreeMap<(bool, &Path, u64, u64), Vec<usize>> = BTreeMap::new();
        for (n, stage) in analysis.stages.iter().enumerate() {
            let regions =
                if stage.name == ENTRY { program.entry() } else { program.stage(&stage.name) };
            for region in regions.iter().filter(|region| region.except.is_empty()) {
                let function = region.function;
                let is_case = region.roots != [function.body];
                let [Some(first), Some(last)] = [region.roots.first(), region.roots.last()] else {
                    continue;
                };
                let first = if is_case { *first } else { function.node };
                let span = (first.start_position().row + 1, last.end_position().row + 1);
                let key = (is_case, &*function.file.path, span.0 as u64, span.1 as u64);
                found.entry(key).or_default().push(n);
            }
        }
        for ((is_case, file, first, last), stages) in found {
            let mut rows = this.rows(file, first, last);
            let line = |row: &usize| this.lines.rows[*row].line;
            let head = rows.iter().map(line).min();
            rows.retain(|row| !is_case || Some(line(row)) == head);
            for row in rows {
                let row = this.with_instruction(row);
                this.meanings[row].stages = Some(this.stages.len());
            }
            this.stages.push(stages);
        }
        for (n, object) in analysis.objects.iter().enumerate() {
            for site in &object.allocated {
                let line = site.at.line as u64;
                for row in this.rows(&site.at.file, line, line) {
                    let row = this.with_instruction(row);
                    this.meanings[row].object = Some(n);
                }
            }
        }
        let allocators: HashMap<&str, &Function<'_>> =
            program.functions.all().map(|function| (&*function.name, function)).collect();
        let names = program.config.memory.allocate.iter().map(|by| &*by.function);
        for function in names.filter_map(|name| allocators.get(name)) {
            let [first, last] =
                [function.node.start_position(), function.node.end_position()].map(|at| at.row + 1);
            for row in this.rows(&function.file.path, first as u64, last as u64) {
                this.meanings[row].is_allocator = true;
            }
        }
        this
    }

    /// The rows of the lines `first` to `last` of a file.
    fn rows(&self, file: &Path, first: u64, last: u64) -> Vec<usize> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let Some(file) = self.lines.files.iter().position(|file| *file == name) else {
            return Vec::new();
        };
        let rows = self.lines.rows.iter().enumerate();
        let rows = rows.filter(|(_, row)| row.file == file && (first..=last).contains(&row.line));
        rows.map(|(n, _)| n).collect()
    }

    /// The row whose instruction is at the address of `row`; several rows may have that address.
    fn with_instruction(&self, row: usize) -> usize {
        self.lines.at(self.lines.rows[row].start).unwrap_or(row)
    }

    /// The row that contains the address `at`.
    pub(super) fn row(&self, at: u64) -> Option<usize> {
        self.lines.at(at)
    }

    pub(super) fn meaning(&self, row: usize) -> Meaning {
        self.meanings[row]
    }

    /// Where an unknown object is allocated: the innermost of these rows outside functions that allocate for their
    /// callers.
    pub(super) fn place(&self, rows: &[usize]) -> Option<Place> {
        let outside = rows.iter().find(|row| !self.meanings[**row].is_allocator);
        let row = self.lines.rows[*outside.or(rows.first())?];
        Some(Place { file: (&self.lines.files[row.file]).into(), line: row.line as usize })
    }
}
