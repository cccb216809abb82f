//! `SE_InitPlugin`: the platform, its devices, and the tables of functions that TensorFlow drives them with.

mod memory;
mod streams;

use std::ffi::c_int;
use std::ptr::null_mut;

use prost::Message;

use crate::abi::*;
use crate::capi;
use crate::device::{self, Device, Machine, device};
use crate::proto::KernelList;
use crate::settings::{Allocator, Settings};
use crate::status::{Fault, Status, guard, required};
use crate::{trace, version};
use memory::*;
use streams::*;

/// The device that TensorFlow means.
fn of(sp: Option<&SpDevice>) -> Result<&'static Device, Fault> {
    device(required(sp, "device")?.ordinal)
}

extern "C" fn get_device_count(_: Option<&Platform>, out: Option<&mut c_int>, status: Option<&TfStatus>) {
    guard(status, || {
        *required(out, "place for the number of devices")? =
            device::machine().map_or(0, |machine| machine.devices.len() as c_int);
        Ok(())
    });
}

extern "C" fn create_device(
    _: Option<&Platform>,
    params: Option<&mut CreateDeviceParams>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        let params = required(params, "device parameters")?;
        let device = device(params.ordinal)?;
        **required(params.device.as_mut(), "device")? = SpDevice {
            struct_size: size_of::<SpDevice>(),
            ext: null_mut(),
            ordinal: params.ordinal,
            handle: null_mut(),
            hardware_name: c"softgpu".as_ptr(),
            vendor: c"tf-lms".as_ptr(),
            pci_bus_id: device.pci_bus_id.as_ptr(),
        };
        Ok(())
    });
}

extern "C" fn numa_node(_: Option<&SpDevice>) -> i32 {
    0
}

extern "C" fn memory_bandwidth(_: Option<&SpDevice>) -> i64 {
    -1
}

extern "C" fn gflops(_: Option<&SpDevice>) -> f64 {
    -1.0
}

extern "C" fn create_device_fns(
    _: Option<&Platform>,
    params: Option<&mut CreateDeviceFnsParams>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        **required(required(params, "device functions")?.fns.as_mut(), "device functions")? = DeviceFns {
            struct_size: size_of::<DeviceFns>(),
            ext: null_mut(),
            numa_node,
            memory_bandwidth,
            gflops,
        };
        Ok(())
    });
}

extern "C" fn create_timer_fns(_: Option<&Platform>, out: Option<&mut TimerFns>, status: Option<&TfStatus>) {
    guard(status, || {
        let nanoseconds = timer_nanoseconds;
        *required(out, "timer functions")? =
            TimerFns { struct_size: size_of::<TimerFns>(), ext: null_mut(), nanoseconds };
        Ok(())
    });
}

extern "C" fn create_stream_executor(
    _: Option<&Platform>,
    params: Option<&mut CreateStreamExecutorParams>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        **required(required(params, "stream executor")?.executor.as_mut(), "stream executor")? =
            StreamExecutor {
                struct_size: size_of::<StreamExecutor>(),
                ext: null_mut(),
                allocate,
                deallocate,
                host_memory_allocate,
                host_memory_deallocate,
                unified_memory_allocate: None,
                unified_memory_deallocate: None,
                get_allocator_stats,
                device_memory_usage,
                create_stream,
                destroy_stream,
                create_stream_dependency,
                get_stream_status,
                create_event,
                destroy_event,
                get_event_status,
                record_event,
                wait_for_event,
                create_timer,
                destroy_timer,
                start_timer,
                stop_timer,
                memcpy_dtoh,
                memcpy_htod,
                memcpy_dtod,
                sync_memcpy_dtoh,
                sync_memcpy_htod,
                sync_memcpy_dtod,
                block_host_for_event,
                block_host_until_done,
                synchronize_all_activity,
                mem_zero,
                memset,
                memset32,
                host_callback,
            };
        Ok(())
    });
}

/// Nothing to give back: the tables and the devices live as long as the process.
extern "C" fn keep(_: Option<&Platform>, _: Ptr) {}

extern "C" fn keep_platform(_: Ptr) {}

/// Does TensorFlow have kernels of its own for this device type?
fn has_kernels_for(device_type: &str) -> Result<bool, Fault> {
    let status = Status::new();
    // SAFETY: the name is a C string and the buffer ours to delete.
    let bytes = unsafe {
        capi::take_buffer((capi::api().get_registered_kernels_for_op)(c"MatMul".as_ptr(), status.as_ptr()))
    };
    status.check().map_err(|_| Fault::new(status.message()))?;
    let kernels = KernelList::decode(&bytes[..]).map_err(|e| Fault::new(format!("softgpu: {e}")))?;
    Ok(kernels.kernel.iter().any(|kernel| kernel.device_type == device_type))
}

/// Accepts or refuses this TensorFlow and these settings; makes the devices.
pub fn accept() -> Result<&'static Machine, Fault> {
    if let Some(machine) = device::machine() {
        return Ok(machine);
    }
    let refuse = |message: String| Err(Fault::new(format!("softgpu: {message}")));
    let settings = match Settings::from_env() {
        Ok(settings) => settings,
        Err(message) => return refuse(message),
    };
    let version = match (&settings.pretend_version, capi::core()) {
        (_, Err(name)) => return refuse(format!("no TensorFlow is loaded: there is no function {name}")),
        (Some(version), _) => version.clone(),
        (None, Ok(core)) => capi::tensorflow_version(core),
    };
    if let Err(message) = version::check(&version) {
        return refuse(message);
    }
    if let Err(name) = capi::load() {
        return refuse(format!("TensorFlow has no function {name}"));
    }
    let device_type = settings.device_type.to_string_lossy();
    if has_kernels_for(&device_type)? {
        return refuse(format!(
            "this TensorFlow is a CUDA build, whose own kernels have the device type {device_type}: install \
             tensorflow-cpu, or set SOFTGPU_DEVICE_TYPE=SOFTGPU and place the graph on /device:SOFTGPU:0"
        ));
    }
    let trace = settings.trace;
    let machine = device::create(settings);
    trace::switch(trace);
    Ok(machine)
}

/// TensorFlow's entry point, called first.
///
/// TensorFlow aborts the process when a plug-in's entry point fails. So one that refuses says why on standard error, and
/// registers a platform that has no devices: a graph that wants one gets TensorFlow's own error.
#[unsafe(no_mangle)]
pub extern "C" fn SE_InitPlugin(params: Option<&mut PlatformRegistrationParams>, status: Option<&TfStatus>) {
    guard(status, || {
        let machine = accept();
        if let Err(fault) = &machine {
            eprintln!("{}", fault.message);
        }
        let params = required(params, "platform parameters")?;
        (params.major, params.minor, params.patch) = (0, 0, 1);
        params.destroy_platform = Some(keep_platform);
        params.destroy_platform_fns = Some(keep_platform);
        let allocator = machine.map_or(Allocator::Bfc, |machine| machine.settings.allocator);
        **required(params.platform.as_mut(), "platform")? = Platform {
            struct_size: PLATFORM_SIZE,
            ext: null_mut(),
            name: c"SOFTGPU".as_ptr(),
            device_type: device::device_type().as_ptr(),
            supports_unified_memory: 0,
            use_bfc_allocator: u8::from(allocator == Allocator::Bfc),
            force_memory_growth: 0,
        };
        **required(params.fns.as_mut(), "platform functions")? = PlatformFns {
            struct_size: size_of::<PlatformFns>(),
            ext: null_mut(),
            get_device_count,
            create_device,
            destroy_device: keep,
            create_device_fns,
            destroy_device_fns: keep,
            create_stream_executor,
            destroy_stream_executor: keep,
            create_timer_fns,
            destroy_timer_fns: keep,
        };
        Ok(())
    });
}
