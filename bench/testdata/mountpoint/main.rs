// mount-s3-lib BUCKET MNT: mounts a bucket read-only with the library of mountpoint-s3, with the
// defaults of its program mount-s3, --metadata-ttl indefinite, --read-only, --force-path-style.
use anyhow::Result;
use mountpoint_s3_client::{config::{AddressingStyle, S3ClientAuthConfig}, user_agent::UserAgent};
use mountpoint_s3_fs::{
    MountpointConfig, Runtime, S3FilesystemConfig, Superblock, SuperblockConfig,
    data_cache::DataCacheConfig,
    fs::{CacheConfig, TimeToLive},
    fuse::config::{FuseOptions, FuseSessionConfig, MountPoint},
    memory::{CandidateSize, PagedPool},
    metrics,
    s3::{S3Personality, S3Path},
    s3::config::{ClientConfig, MemoryLimitSetting, PartConfig, Region, TargetThroughputSetting},
};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let (bucket, mnt) = (&args[1], &args[2]);
    let _metrics = metrics::install(None);
    let fuse = FuseSessionConfig::new(
        MountPoint::new(mnt)?,
        FuseOptions { read_only: true, allow_other: false, allow_root: false, auto_unmount: false, clone_fd: false },
        16,
    )?;
    let fs_config = S3FilesystemConfig {
        cache_config: CacheConfig::new(TimeToLive::Indefinite),
        read_only: true,
        ..Default::default()
    };
    let mem = 1usize << 30;
    let client_config = ClientConfig {
        region: Region::new_user_specified(std::env::var("AWS_REGION")?),
        endpoint_url: std::env::var("AWS_ENDPOINT_URL").ok(),
        addressing_style: AddressingStyle::Path,
        dual_stack: false,
        transfer_acceleration: false,
        auth_config: S3ClientAuthConfig::Default,
        requester_pays: false,
        expected_bucket_owner: None,
        throughput_target: TargetThroughputSetting::Default,
        bind: None,
        part_config: PartConfig::with_part_size(8 << 20).validate(MemoryLimitSetting::Default(mem))?,
        user_agent: UserAgent::new(None),
        tls_config: None,
    };
    let pool = PagedPool::config()
        .with_candidate_sizes([CandidateSize::new(client_config.part_config.read_size_bytes)])
        .with_memory_limit(mem)
        .build();
    let path = S3Path::parse_s3_uri(&format!("s3://{bucket}/"))?;
    let client = client_config.create_client(pool.clone(), Some(&path))?;
    let runtime = Runtime::new(client.event_loop_group());
    let personality = S3Personality::Standard;
    let superblock = Superblock::new(
        client.clone(),
        path,
        SuperblockConfig { cache_config: fs_config.cache_config.clone(), s3_personality: personality },
    );
    let data = DataCacheConfig { disk_cache_config: None, express_cache_config: None };
    let session = MountpointConfig::new(fuse, fs_config, data)?.create_fuse_session(superblock, client, runtime, pool)?;
    println!("mounted");
    session.join()?;
    Ok(())
}
