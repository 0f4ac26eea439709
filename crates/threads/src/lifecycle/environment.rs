//! The environment of the process, in the memory where the kernel has put it. `getenv` and `setenv` are not used,
//! because programs such as bash replace them by functions for their own copy of the environment.
//!
//! # Safety
//!
//! The process has one thread. The array ends with a null pointer, and its strings with zero bytes.

use core::ffi::CStr;

/// Prefix of saved variables; the rest of the name is the name of the variable.
const SAVED: &CStr = c"PHALANX_THREADS_";

unsafe extern "C" {
    static mut environ: *mut *mut i8;
}

/// The place of the variable `prefix` + `name` in the array, and its value.
fn find(prefix: &CStr, name: &CStr) -> Option<(*mut *mut i8, &'static CStr)> {
    let mut at = unsafe { environ };
    while !at.is_null() {
        let entry = unsafe { *at };
        if entry.is_null() {
            break;
        }
        let entry = unsafe { CStr::from_ptr(entry) };
        let value = entry
            .to_bytes_with_nul()
            .strip_prefix(prefix.to_bytes())
            .and_then(|rest| rest.strip_prefix(name.to_bytes()))
            .and_then(|rest| rest.strip_prefix(b"="))
            .and_then(|value| CStr::from_bytes_with_nul(value).ok());
        if let Some(value) = value {
            return Some((at, value));
        }
        at = unsafe { at.add(1) };
    }
    None
}

/// The value of a variable.
pub(super) fn variable(name: &CStr) -> Option<&'static str> {
    find(c"", name)?.1.to_str().ok()
}

/// Removes a variable.
pub(super) fn remove(name: &CStr) {
    if let Some((at, _)) = find(c"", name) {
        shift(at);
    }
}

/// Moves the entries after `at` to the front by one.
fn shift(mut at: *mut *mut i8) {
    loop {
        let next = unsafe { *at.add(1) };
        unsafe { *at = next };
        if next.is_null() {
            return;
        }
        at = unsafe { at.add(1) };
    }
}

/// Restores the saved value of a variable, or removes the variable if none is saved.
pub(super) fn restore(name: &CStr) {
    remove(name);
    if let Some((at, _)) = find(SAVED, name) {
        unsafe { *at = (*at).add(SAVED.count_bytes()) };
    }
}
