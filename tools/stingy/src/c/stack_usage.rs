//! Stack frames of functions, from the files that `gcc -fstack-usage` writes beside its objects.

use std::collections::HashMap;
use std::path::Path;

use crate::error::Error;

/// The frame of a function.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Frame {
    pub(crate) bytes: u64,
    /// The frame may be larger, because of arrays of variable length or `alloca`.
    pub(crate) is_unbounded: bool,
}

/// Reads all `.su` files of a folder and its subfolders. Of functions with the same name the largest frame counts.
pub(crate) fn load(folder: &Path) -> Result<HashMap<String, Frame>, Error> {
    let mut frames = HashMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(Error::read(&folder))? {
            let path = entry.map_err(Error::read(&folder))?.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "su") {
                let text = std::fs::read_to_string(&path).map_err(Error::read(&path))?;
                add(&text, &mut frames);
            }
        }
    }
    if frames.is_empty() {
        let message = "no .su file in this folder; compile with `-fstack-usage`";
        return Err(Error::contents(folder, message));
    }
    Ok(frames)
}

fn add(text: &str, frames: &mut HashMap<String, Frame>) {
    for line in text.lines() {
        let mut fields = line.split('\t');
        let (Some(at), Some(bytes), Some(kind)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (Some(name), Ok(bytes)) = (at.rsplit(':').next(), bytes.parse()) else { continue };
        // The compiler adds suffixes to parts and copies of functions, as in `f.constprop.0`.
        let name = name.split('.').next().unwrap_or(name);
        let frame = frames.entry(name.to_owned()).or_insert(Frame { bytes, is_unbounded: false });
        frame.bytes = frame.bytes.max(bytes);
        frame.is_unbounded |= kind == "dynamic";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read() {
        let mut frames = HashMap::new();
        let text =
            "a.c:3:5:f\t48\tstatic\na.c:9:1:g\t16\tdynamic\na.c:3:5:f.part.0\t64\tstatic\nx\n";
        add(text, &mut frames);
        assert_eq!(frames["f"], Frame { bytes: 64, is_unbounded: false });
        assert_eq!(frames["g"], Frame { bytes: 16, is_unbounded: true });
        assert_eq!(frames.len(), 2);
    }
}
