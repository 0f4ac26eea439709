//! The lines of a configuration of mosquitto.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An option with its value and position.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) key: String,
    /// Empty if there is none.
    pub(super) value: String,
}

impl Setting {
    /// The value of an option that is on or off.
    ///
    /// # Errors
    /// If it is another value.
    pub(super) fn flag(&self) -> Result<bool, String> {
        match self.value.as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err("expected true or false".to_owned()),
        }
    }
}

/// Reads a file and the files that it includes.
///
/// # Errors
/// If a file cannot be read. Names the file.
pub(super) fn read(path: &Path) -> Result<Vec<Setting>, String> {
    let mut all = Vec::new();
    for setting in lines(path)? {
        if setting.key != "include_dir" {
            all.push(setting);
            continue;
        }
        let folder = Path::new(&setting.value);
        for file in included(folder).map_err(|error| cannot_read(folder, &error))? {
            all.extend(lines(&file)?);
        }
    }
    Ok(all)
}

/// The files of an included folder, in the order in which mosquitto reads them.
fn included(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: io::Result<Vec<_>> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = entries?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    files.sort();
    Ok(files)
}

/// Reads a file without those that it includes.
pub(super) fn lines(path: &Path) -> Result<Vec<Setting>, String> {
    let text = fs::read_to_string(path).map_err(|error| cannot_read(path, &error))?;
    let file = path.display().to_string();
    let setting = |(index, line): (usize, &str)| {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (file, key, value) = (file.clone(), key.to_owned(), value.trim().to_owned());
        Some(Setting { file, line: index + 1, key, value })
    };
    Ok(text.lines().enumerate().filter_map(setting).collect())
}

fn cannot_read(path: &Path, error: &io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}
