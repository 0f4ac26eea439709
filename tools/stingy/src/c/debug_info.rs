//! Types and static variables of a built program, from its DWARF debugging information and its symbols.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;

use gimli::{DebuggingInformationEntry, Unit, UnitOffset};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

use super::dwarf::{self, Reader};
use super::types::{Derivation, Names, Type};
use crate::error::Error;
use crate::model::Global;

type Entry<'a> = DebuggingInformationEntry<Reader<'a>>;

/// Maximum length of a chain of types, against malformed debugging information.
const MAX_TYPE_CHAIN: usize = 32;

/// A structure or union.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Layout {
    pub(crate) bytes: u64,
    /// Members in declaration order; members of anonymous members are included.
    pub(crate) members: Vec<(String, Type)>,
    /// The last member is an array without a length, so that objects are larger.
    pub(crate) is_flexible: bool,
}

impl Layout {
    pub(crate) fn member(&self, name: &str) -> Option<&Type> {
        self.members.iter().find(|(member, _)| member == name).map(|(_, ty)| ty)
    }
}

/// The types of a program.
#[derive(Debug, Default)]
pub(crate) struct DebugInfo {
    pointer_bytes: u64,
    pub(crate) layouts: HashMap<String, Layout>,
    /// Names of different structures in the sources.
    pub(crate) ambiguous: BTreeSet<String>,
    /// Names of structures that only libraries define.
    foreign: BTreeSet<String>,
    /// Sizes of types other than structures.
    pub(crate) sizes: Names<u64>,
    typedefs: Names<Type>,
    pub(crate) enumerators: Names<i64>,
    /// Enumerators by the name of their enumeration, in the order of declaration.
    pub(crate) enumerations: HashMap<String, Vec<String>>,
    /// Types of static variables.
    pub(crate) variables: Names<Type>,
    /// Types that functions return.
    pub(crate) returns: Names<Type>,
    pub(crate) globals: Vec<Global>,
    pub(crate) global_bytes: u64,
}

impl DebugInfo {
    /// Reads an ELF file. Structures from `sources` take precedence over those from libraries.
    pub(crate) fn load(path: &Path, sources: &HashSet<&OsStr>) -> Result<Self, Error> {
        let mut info = dwarf::open(path, |file, dwarf| {
            let pointer_bytes = if file.is_64() { 8 } else { 4 };
            let mut info = Self { pointer_bytes, ..Self::default() };
            info.read_symbols(file);
            info.read_units(dwarf, sources)?;
            Ok(info)
        })?;
        // A name that is both the tag of a structure and the typedef of another type.
        let typedefs = &info.typedefs;
        info.ambiguous.extend(info.layouts.keys().filter(|name| typedefs.contains(name)).cloned());
        info.layouts.retain(|name, _| !typedefs.contains(name));
        if info.layouts.is_empty() && info.ambiguous.is_empty() {
            let message = "the program has no debugging information of types; build it with `-g`, without `-gsplit-dwarf`";
            return Err(Error::contents(path, message));
        }
        Ok(info)
    }

    /// Strips typedefs.
    pub(crate) fn canonical(&self, ty: &Type) -> Type {
        let mut found = ty.clone();
        for _ in 0..MAX_TYPE_CHAIN {
            let Some(target) = self.typedefs.get(&found.base) else { break };
            if target.base == found.base {
                break;
            }
            found.base.clone_from(&target.base);
            found.derived.extend(&target.derived);
        }
        found
    }

    /// Size in bytes; `None` for unknown and incomplete types.
    pub(crate) fn size(&self, ty: &Type) -> Option<u64> {
        let found = self.canonical(ty);
        let mut count = 1_u64;
        for step in &found.derived {
            match step {
                Derivation::Pointer => return count.checked_mul(self.pointer_bytes),
                Derivation::Array(length) => count = count.checked_mul((*length)?)?,
            }
        }
        let layout = self.layouts.get(&found.base).map(|layout| layout.bytes);
        count.checked_mul(layout.or_else(|| self.sizes.get(&found.base).copied())?)
    }

    /// If structures share a name, picks the largest, preferring the program's to a library's.
    fn add_layout(&mut self, name: String, layout: Layout, is_own: bool) {
        if let Some(other) = self.layouts.get(&name) {
            let is_other_own = !self.foreign.contains(&name);
            if is_own && !is_other_own {
                self.ambiguous.remove(&name);
            } else if is_own == is_other_own && *other != layout {
                self.ambiguous.insert(name.clone());
            }
            if (is_other_own, other.bytes) > (is_own, layout.bytes) {
                return;
            }
        }
        if is_own {
            self.foreign.remove(&name);
        } else {
            self.foreign.insert(name.clone());
        }
        self.layouts.insert(name, layout);
    }

    fn read_symbols(&mut self, file: &object::File<'_>) {
        for section in file.sections() {
            if matches!(section.kind(), SectionKind::Data | SectionKind::UninitializedData) {
                self.global_bytes += section.size();
            }
        }
        let writable = |symbol: &object::Symbol<'_, '_>| {
            let section = symbol.section_index().and_then(|at| file.section_by_index(at).ok());
            section.is_some_and(|section| {
                matches!(section.kind(), SectionKind::Data | SectionKind::UninitializedData)
            })
        };
        self.globals = file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 0)
            .filter(writable)
            .filter_map(|symbol| {
                Some(Global { name: symbol.name().ok()?.to_owned(), bytes: symbol.size() })
            })
            .collect();
        self.globals.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.name.cmp(&b.name)));
    }

    fn read_units(
        &mut self,
        dwarf: &gimli::Dwarf<Reader<'_>>,
        sources: &HashSet<&OsStr>,
    ) -> gimli::Result<()> {
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = dwarf.unit(header)?;
            let unit = UnitTypes::load(dwarf, unit)?;
            let path = unit.entries.first().and_then(|entry| unit.name(entry));
            let name = path.as_deref().and_then(|path| Path::new(path).file_name());
            unit.collect(self, name.is_some_and(|name| sources.contains(name)))?;
        }
        Ok(())
    }
}

/// The entries of one compilation unit.
struct UnitTypes<'d, 'a> {
    dwarf: &'d gimli::Dwarf<Reader<'a>>,
    unit: Unit<Reader<'a>>,
    /// In the order of the file, with the depth in the tree.
    entries: Vec<Entry<'a>>,
    at: HashMap<UnitOffset, usize>,
    /// Names anonymous structures after their typedefs.
    aliases: HashMap<UnitOffset, String>,
}

impl<'d, 'a> UnitTypes<'d, 'a> {
    fn load(dwarf: &'d gimli::Dwarf<Reader<'a>>, unit: Unit<Reader<'a>>) -> gimli::Result<Self> {
        let mut entries = Vec::new();
        let mut cursor = unit.entries();
        while let Some(entry) = cursor.next_dfs()? {
            entries.push(entry.clone());
        }
        let at = entries.iter().enumerate().map(|(i, entry)| (entry.offset, i)).collect();
        let mut this = Self { dwarf, unit, entries, at, aliases: HashMap::new() };
        for entry in this.entries.iter().filter(|entry| entry.tag == gimli::DW_TAG_typedef) {
            let target = this.target(entry).filter(|target| this.name(target).is_none());
            if let (Some(target), Some(name)) = (target, this.name(entry)) {
                this.aliases.entry(target.offset).or_insert(name);
            }
        }
        Ok(this)
    }

    fn name(&self, entry: &Entry<'a>) -> Option<String> {
        let value = entry.attr_value(gimli::DW_AT_name)?;
        let text = self.dwarf.attr_string(&self.unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// The entry that `DW_AT_type` refers to.
    fn target(&self, entry: &Entry<'a>) -> Option<&Entry<'a>> {
        let gimli::AttributeValue::UnitRef(offset) = entry.attr_value(gimli::DW_AT_type)? else {
            return None;
        };
        self.at.get(&offset).map(|&i| &self.entries[i])
    }

    /// The type of a variable, member or function.
    fn type_of(&self, entry: &Entry<'a>) -> Type {
        let mut found = Type::default();
        let mut at = self.target(entry);
        for _ in 0..MAX_TYPE_CHAIN {
            let Some(entry) = at else {
                found.base = "void".to_owned();
                break;
            };
            match entry.tag {
                gimli::DW_TAG_pointer_type => found.derived.push(Derivation::Pointer),
                gimli::DW_TAG_array_type => found.derived.extend(self.lengths(entry)),
                gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => (),
                gimli::DW_TAG_subroutine_type => {
                    found.base = "function".to_owned();
                    break;
                }
                _ => {
                    found.base = self.type_name(entry);
                    break;
                }
            }
            at = self.target(entry);
        }
        found
    }

    fn type_name(&self, entry: &Entry<'a>) -> String {
        let alias = || self.aliases.get(&entry.offset).cloned();
        // All units that include a header name its structures alike.
        let place = || {
            let [line, column] = [gimli::DW_AT_decl_line, gimli::DW_AT_decl_column]
                .map(|at| entry.attr(at).and_then(gimli::Attribute::udata_value).unwrap_or(0));
            format!("anonymous {line}:{column}")
        };
        self.name(entry).or_else(alias).unwrap_or_else(place)
    }

    /// The dimensions of an array.
    fn lengths(&self, array: &Entry<'a>) -> Vec<Derivation> {
        let ranges = self.at.get(&array.offset).into_iter().flat_map(|&i| self.children(i));
        let ranges = ranges.filter(|child| child.tag == gimli::DW_TAG_subrange_type);
        let value = |range: &Entry<'a>, at| range.attr(at).and_then(gimli::Attribute::udata_value);
        let length = |range| {
            let last = || value(range, gimli::DW_AT_upper_bound)?.checked_add(1);
            Derivation::Array(value(range, gimli::DW_AT_count).or_else(last))
        };
        ranges.map(length).collect()
    }

    fn collect(&self, info: &mut DebugInfo, is_own: bool) -> gimli::Result<()> {
        let bytes = |entry: &Entry<'a>| {
            entry.attr(gimli::DW_AT_byte_size).and_then(gimli::Attribute::udata_value)
        };
        for (i, entry) in self.entries.iter().enumerate() {
            match entry.tag {
                gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                    if let Some(bytes) = bytes(entry) {
                        let members = self.members(i);
                        let is_flexible = self.is_flexible(i);
                        let layout = Layout { bytes, members, is_flexible };
                        info.add_layout(self.type_name(entry), layout, is_own);
                    }
                }
                gimli::DW_TAG_base_type => {
                    if let (Some(name), Some(bytes)) = (self.name(entry), bytes(entry)) {
                        info.sizes.add(name, bytes, is_own);
                    }
                }
                gimli::DW_TAG_enumeration_type => {
                    let name = self.type_name(entry);
                    info.sizes.add(name.clone(), bytes(entry).unwrap_or(4), is_own);
                    let enumerators: Vec<_> =
                        self.children(i).filter_map(|child| self.enumerator(child)).collect();
                    let names = enumerators.iter().map(|(name, _)| name.clone()).collect();
                    info.enumerations.insert(name, names);
                    for (name, value) in enumerators {
                        info.enumerators.add(name, value, is_own);
                    }
                }
                gimli::DW_TAG_typedef => {
                    if let Some(name) = self.name(entry) {
                        let target = self.type_of(entry);
                        if target.base != name {
                            info.typedefs.add(name, target, is_own);
                        }
                    }
                }
                gimli::DW_TAG_variable if entry.depth == 1 => {
                    let ty = self.type_of(entry);
                    // The definition of an external array states the length.
                    let is_incomplete = ty.derived.first() == Some(&Derivation::Array(None));
                    if let Some(name) = self.name(entry).filter(|_| !is_incomplete) {
                        info.variables.add(name, ty, is_own);
                    }
                }
                gimli::DW_TAG_subprogram => {
                    if let Some(name) = self.name(entry) {
                        info.returns.add(name, self.type_of(entry), is_own);
                    }
                }
                _ => (),
            }
        }
        Ok(())
    }

    /// The entries directly below the entry with index `i`.
    fn children(&self, i: usize) -> impl Iterator<Item = &Entry<'a>> {
        let depth = self.entries[i].depth;
        let descendants = self.entries[i + 1..].iter().take_while(move |entry| entry.depth > depth);
        descendants.filter(move |entry| entry.depth == depth + 1)
    }

    fn members(&self, i: usize) -> Vec<(String, Type)> {
        let mut members = Vec::new();
        for child in self.children(i).filter(|child| child.tag == gimli::DW_TAG_member) {
            match self.name(child) {
                Some(name) => {
                    members.push((name, self.type_of(child)));
                }
                None => {
                    let inner = self.target(child).and_then(|target| self.at.get(&target.offset));
                    members.extend(inner.map(|&inner| self.members(inner)).unwrap_or_default());
                }
            }
        }
        members
    }

    fn is_flexible(&self, i: usize) -> bool {
        let last = self.children(i).filter(|child| child.tag == gimli::DW_TAG_member).last();
        let ty = last.map(|last| self.type_of(last).derived);
        let flexible = [Derivation::Array(None), Derivation::Array(Some(0))];
        ty.and_then(|ty| ty.first().copied()).is_some_and(|ty| flexible.contains(&ty))
    }

    fn enumerator(&self, entry: &Entry<'a>) -> Option<(String, i64)> {
        let value = entry.attr(gimli::DW_AT_const_value)?;
        let value = value.sdata_value().or_else(|| value.udata_value()?.try_into().ok())?;
        Some((self.name(entry)?, value))
    }
}
