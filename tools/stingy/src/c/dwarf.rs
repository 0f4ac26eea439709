//! Opens built programs with their DWARF debugging information.

use std::borrow::Cow;
use std::path::Path;

use gimli::{EndianSlice, RunTimeEndian};
use object::{Object, ObjectKind, ObjectSection};

use crate::error::Error;

pub(crate) type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// Passes an ELF program and its debugging information to `read`.
///
/// # Errors
/// If the file is no linked ELF program, if the debugging information cannot be read, or that of `read`.
pub(crate) fn open<T>(
    path: &Path,
    read: impl FnOnce(&object::File<'_>, &gimli::Dwarf<Reader<'_>>) -> gimli::Result<T>,
) -> Result<T, Error> {
    let bytes = std::fs::read(path).map_err(Error::read(path))?;
    let file = object::File::parse(&*bytes)
        .map_err(|error| Error::contents(path, format!("not an ELF program: {error}")))?;
    if file.kind() == ObjectKind::Relocatable {
        return Err(Error::contents(path, "an object file; name the linked program"));
    }
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let sections = gimli::DwarfSections::load(|id| {
        let data = file.section_by_name(id.name()).map(|section| section.uncompressed_data());
        data.transpose().map(|data| data.unwrap_or(Cow::Borrowed(&[])))
    })
    .map_err(|error| {
        let message =
            format!("cannot read the debugging information: {error}; build with `-gz=none`");
        Error::contents(path, message)
    })?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, endian));
    read(&file, &dwarf)
        .map_err(|error| Error::contents(path, format!("malformed debugging information: {error}")))
}
