//! The accesses of a program, as valgrind's tool lackey prints them.

use std::io::BufRead;

/// An access, or where the program is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// The program was loaded this many bytes above the addresses of its file.
    Loaded {
        bias: u64,
    },
    Instruction {
        at: u64,
        bytes: u64,
    },
    Load {
        at: u64,
        bytes: u64,
    },
    /// Also an access that loads and stores.
    Store {
        at: u64,
        bytes: u64,
    },
}

/// Reads one line; `None` for the messages of valgrind.
fn parse(line: &[u8]) -> Option<Event> {
    let text = std::str::from_utf8(line).ok()?.trim_end();
    let access = |rest: &str| {
        let (at, bytes) = rest.trim_start().split_once(',')?;
        Some((u64::from_str_radix(at, 16).ok()?, bytes.parse().ok()?))
    };
    if let Some(rest) = text.strip_prefix("I ") {
        access(rest).map(|(at, bytes)| Event::Instruction { at, bytes })
    } else if let Some(rest) = text.strip_prefix(" L ") {
        access(rest).map(|(at, bytes)| Event::Load { at, bytes })
    } else if let Some(rest) = text.strip_prefix(" S ").or_else(|| text.strip_prefix(" M ")) {
        access(rest).map(|(at, bytes)| Event::Store { at, bytes })
    } else if text.contains("PT_LOAD[") {
        let bias = text.split_once("bias 0x")?.1;
        Some(Event::Loaded { bias: u64::from_str_radix(bias, 16).ok()? })
    } else {
        None
    }
}

/// Passes all events to `each`, until it returns false or the trace ends.
pub(crate) fn read(
    mut from: impl BufRead,
    mut each: impl FnMut(Event) -> bool,
) -> std::io::Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        if let Some(event) = parse(&line)
            && !each(event)
        {
            break;
        }
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_read_and_messages_are_not() {
        let text = "==1== Lackey\nPT_LOAD[2]:   acquired as ro, bias 0x108000\nI  0401ab70,3\n S 1fff000728,8\n L 10,4\n M 20,1\nI x\n";
        let mut events = Vec::new();
        read(text.as_bytes(), |event| {
            events.push(event);
            true
        })
        .expect("a trace");
        let expected = [
            Event::Loaded { bias: 0x108000 },
            Event::Instruction { at: 0x401ab70, bytes: 3 },
            Event::Store { at: 0x1fff000728, bytes: 8 },
            Event::Load { at: 0x10, bytes: 4 },
            Event::Store { at: 0x20, bytes: 1 },
        ];
        assert_eq!(events, expected);
    }
}
