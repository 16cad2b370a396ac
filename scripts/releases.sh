# Sourced by scripts that unpack a package of another release of Debian without installing it.
# shellcheck shell=bash

# lists_of RELEASE FOLDER: has apt-get, from here on, read the list of packages of that release, which this machine's own
# do not have. Its files are in FOLDER, an absolute path. DEBIAN_MIRROR: where the packages come from.
lists_of() {
  local release=$1
  shift
  local mirror
  mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    sed -n '/^Debian http/{s/^Debian //p;q}')}
  mkdir -p "$1"/{state/lists,cache/archives}/partial
  : >"$1/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" >"$1/sources"
  cat >"$1/conf" <<END
APT::Architectures { "amd64"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::Etc::SourceList "$1/sources";
Dir::Etc::SourceParts "-";
Dir::State "$1/state";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
END
  export APT_CONFIG=$1/conf
  apt-get update -q
}

# unpack_from RELEASE FOLDER PACKAGE...: what is in the packages, below FOLDER, which appears as a whole. Once; others wait.
# with='REGEX' unpack_from ...: and in those that they depend on, if the whole name matches.
unpack_from() {
  local release=$1 there=$2 aside=$2.$$ others=
  shift 2
  mkdir -p "${there%/*}"
  exec 9>"$there.lock"
  flock 9
  if [ ! -d "$there" ]; then
    mkdir -p "$aside"
    (
      lists_of "$release" "$aside.apt" || exit 1
      cd "$aside"
      [ -z "${with:-}" ] || others=$(apt-get install -qq --simulate --no-install-recommends "$@" | sed -nE "s/^Inst ($with) .*/\1/p") || exit 1
      # shellcheck disable=SC2086  # names
      apt-get download -q -o APT::Sandbox::User=root "$@" $others || exit 1
      for package in *.deb; do
        dpkg -x "$package" .
        rm "$package"
      done
    ) >&2 || { rm -rf "$aside" "$aside.apt"; return 1; }
    rm -rf "$aside.apt"
    mv "$aside" "$there"
  fi
  exec 9>&-
}
