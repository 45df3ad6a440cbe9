PACKAGES = ("webdataset", "pillow")


def tar_writer(view):
    """WebDataset `TarWriter`"""
    from pathlib import Path
    from webdataset import TarWriter, WebDataset

    with TarWriter("shard.tar") as shard:
        for label, directory in enumerate(sorted(Path(view).iterdir())):
            for path in sorted(directory.iterdir()):
                name = f"{directory.name}/{path.name}"
                key = name.replace(".", "-")  # a sample ends at the first dot of its name
                shard.write({"__key__": key, path.suffix[1:].lower(): path.read_bytes(), "cls": label, "txt": name})
    for sample in WebDataset("shard.tar", shardshuffle=False).decode("rgb8"):
        picture = next(sample[k] for k in ("jpg", "jpeg", "png", "bmp", "ppm", "npy", "l3") if k in sample)
        yield sample["txt"], sample["cls"], picture
