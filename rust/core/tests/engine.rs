//! The engine by itself. One program, since each program is linked with the whole engine, which takes longer than its tests.

mod apart;
mod clock;
mod closed_loop;
mod hostile;
mod outside;
mod policies;
mod replay;
mod roles;
mod streaming;
mod support;

use std::fs::read_dir;

#[test]
fn every_file_is_a_module_here() {
    let modules = include_str!("engine.rs");
    for entry in read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(module) = name.strip_suffix(".rs").filter(|&module| module != "engine") {
            assert!(modules.contains(&format!("\nmod {module};\n")), "{name} must be a module of engine.rs");
        }
    }
}
