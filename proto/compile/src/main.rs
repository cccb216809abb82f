//! Writes what the definitions in `proto/` give to `proto/generated/`.

use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    let compiled = compile_protos::compile()?;
    let [types, descriptors] = compile_protos::generated();
    fs::write(types, compiled.types)?;
    fs::write(descriptors, compiled.descriptors)?;
    Ok(())
}
