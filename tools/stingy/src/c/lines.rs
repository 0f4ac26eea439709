//! The source lines of a program's instructions.

use std::path::Path;

use super::dwarf;
use crate::error::Error;

/// Instructions of one source line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Row {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Index in [`Lines::files`].
    pub(crate) file: usize,
    pub(crate) line: u64,
}

/// The line table of a program, by the addresses of its file. Code of inlined functions has their lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Names of source files, without folders.
    pub(crate) files: Vec<String>,
    /// Sorted by the address. A row without instructions, such as that of a call whose function is inlined, precedes the
    /// one with the instruction.
    pub(crate) rows: Vec<Row>,
}

impl Lines {
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let mut lines = dwarf::open(path, |_, dwarf| Self::read(dwarf))?;
        if lines.rows.is_empty() {
            return Err(Error::contents(path, "the program has no line table; build it with `-g`"));
        }
        lines.rows.sort_by_key(|row| (row.start, row.end));
        Ok(lines)
    }

    fn read(dwarf: &gimli::Dwarf<dwarf::Reader<'_>>) -> gimli::Result<Self> {
        let mut lines = Self::default();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = dwarf.unit(header)?;
            lines.read_inlined(dwarf, &unit)?;
            let Some(program) = unit.line_program.clone() else { continue };
            let mut rows = program.rows();
            let mut before: Option<(u64, u64, Option<u64>)> = None;
            while let Some((header, row)) = rows.next_row()? {
                if let Some((start, file, Some(line))) = before
                    && let Some(file) = header.file(file)
                {
                    let name = dwarf.attr_string(&unit, file.path_name())?.to_string_lossy();
                    let file = lines.file(&name);
                    lines.rows.push(Row { start, end: row.address(), file, line });
                }
                let line = row.line().map(std::num::NonZero::get);
                before = (!row.end_sequence()).then_some((row.address(), row.file_index(), line));
            }
        }
        Ok(lines)
    }

    /// Adds the lines of calls whose functions are inlined. The line program may have only those of the functions.
    fn read_inlined(
        &mut self,
        dwarf: &gimli::Dwarf<dwarf::Reader<'_>>,
        unit: &gimli::Unit<dwarf::Reader<'_>>,
    ) -> gimli::Result<()> {
        let Some(program) = &unit.line_program else { return Ok(()) };
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag != gimli::DW_TAG_inlined_subroutine {
                continue;
            }
            let [file, line] = [gimli::DW_AT_call_file, gimli::DW_AT_call_line]
                .map(|at| entry.attr(at).and_then(gimli::Attribute::udata_value));
            let file = match entry.attr_value(gimli::DW_AT_call_file) {
                Some(gimli::AttributeValue::FileIndex(file)) => Some(file),
                _ => file,
            };
            let at = match entry.attr_value(gimli::DW_AT_entry_pc) {
                Some(gimli::AttributeValue::Addr(at)) => Some(at),
                _ => dwarf.die_ranges(unit, entry)?.next()?.map(|range| range.begin),
            };
            if let (Some(file), Some(line), Some(at)) = (file, line, at)
                && let Some(file) = program.header().file(file)
            {
                let name = dwarf.attr_string(unit, file.path_name())?.to_string_lossy();
                let file = self.file(&name);
                self.rows.push(Row { start: at, end: at, file, line });
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &str) -> usize {
        let name = path.rsplit('/').next().unwrap_or(path);
        // The last one is the likeliest.
        self.files.iter().rposition(|file| file == name).unwrap_or_else(|| {
            self.files.push(name.to_owned());
            self.files.len() - 1
        })
    }

    /// Index of the row with the instruction at an address.
    pub(crate) fn at(&self, at: u64) -> Option<usize> {
        let before = self.rows.partition_point(|row| row.start <= at);
        let row = self.rows[..before].iter().rposition(|row| row.start < row.end)?;
        (at < self.rows[row].end).then_some(row)
    }
}
