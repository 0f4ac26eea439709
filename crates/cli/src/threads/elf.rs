//! The parts of an ELF file that determine whether its threads can be converted.

use object::elf::{EM_X86_64, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

/// An x86-64 program or library.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Elf {
    /// The dynamic linker; none for static programs and libraries.
    pub(super) interpreter: Option<String>,
    /// Names of the functions and variables that other objects supply, without versions, sorted.
    pub(super) imports: Vec<String>,
    /// Names that this object supplies to others.
    pub(super) exports: Vec<String>,
    pub(super) is_go: bool,
    /// `N` of the newest version `GLIBC_2.N` among the names of versions that the object defines or requires.
    pub(super) newest_glibc: Option<u32>,
}

/// Reads an ELF file.
///
/// # Errors
///
/// The reason for which its threads cannot be converted: it has 32 bits, is for another machine, or is malformed.
pub(super) fn parse(bytes: &[u8]) -> Result<Elf, String> {
    // e_ident[EI_CLASS] of the ELF specification: 1 for 32 bits, 2 for 64 bits.
    if bytes.get(4) == Some(&1) {
        return Err("32-bit programs are not supported".to_owned());
    }
    let malformed = |error: object::Error| format!("malformed ELF file: {error}");
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(malformed)?;
    let endian = header.endian().map_err(malformed)?;
    if header.e_machine(endian) != EM_X86_64 {
        return Err("programs for machines other than x86-64 are not supported".to_owned());
    }
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(malformed)?;
    let mut elf = Elf { is_go: file.section_by_name(".go.buildinfo").is_some(), ..Elf::default() };
    let mut is_dynamic = false;
    for segment in file.elf_program_headers() {
        is_dynamic |= segment.p_type(endian) == object::elf::PT_DYNAMIC;
        if let Some(path) = segment.interpreter(endian, bytes).map_err(malformed)? {
            elf.interpreter = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    let Some(names) = file.section_by_name(".dynstr") else {
        return match is_dynamic {
            true => Err("the section headers are stripped, so imports are unknown".to_owned()),
            false => Ok(elf),
        };
    };
    elf.newest_glibc = names
        .data()
        .map_err(malformed)?
        .split(|byte| *byte == 0)
        .filter_map(|name| std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_2."))
        .filter_map(|version| version.split('.').next()?.parse().ok())
        .max();
    for symbol in file.dynamic_symbols() {
        let name = symbol.name().map_err(malformed)?.to_owned();
        match symbol.is_undefined() {
            _ if name.is_empty() => {}
            true => elf.imports.push(name),
            false => elf.exports.push(name),
        }
    }
    elf.imports.sort_unstable();
    elf.imports.dedup();
    Ok(elf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_read() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = parse(&program).unwrap();
        assert!(elf.imports.iter().any(|name| name == "pthread_create"), "{:?}", elf.imports);
        assert!(!elf.is_go && elf.interpreter.is_some() && elf.newest_glibc.is_some());
    }

    #[test]
    fn truncated_files_are_errors() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [5, 63, 64, 100, 1000, program.len() / 2] {
            parse(&program[..length]).unwrap_err();
        }
    }

    #[test]
    fn other_machines_are_refused() {
        let mut program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        // e_machine
        program[18] = 183;
        assert!(parse(&program).unwrap_err().contains("x86-64"));
        program[4] = 1;
        assert!(parse(&program).unwrap_err().contains("32-bit"));
    }
}
