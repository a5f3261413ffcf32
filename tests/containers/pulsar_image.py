"""Files of the local image of Pulsar: its scripts and its configuration, as far as the suite uses them.

Written to the contract of apachepulsar/pulsar (docker/pulsar, bin/ and conf/ of Pulsar's sources). Bash alone is there,
so that what is Python in the official image is a script of bash here.
"""

from __future__ import annotations

from pathlib import Path

from perfgate.systems.own_processes import LOG4J
from perfgate.systems.pulsar.jars import kept_digests, pulsar_jars
from perfgate.systems.pulsar.managed.nodes import OPENED

USER = 10_000
LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6")
"""Of bookies: RocksDB, which comes in a jar, is linked with these."""
BIN = """\
#!/bin/bash
# As the release's own: options of Java from conf/*env.sh, a role's configuration from conf/.
cd "${0%/*}/.." || exit 1
. conf/bkenv.sh
. conf/pulsar_env.sh
command=$1
shift
options=(-cp 'conf:lib/*' -Djava.net.preferIPv4Stack=true -Dio.netty.tryReflectionSetAccessible=true
    -Dlog4j2.configurationFile=conf/log4j2.properties @OPENED@)
if [[ $command == bookie ]]; then
    options+=($BOOKIE_MEM $BOOKIE_GC $BOOKIE_EXTRA_OPTS)
else
    options+=($PULSAR_MEM $PULSAR_GC $PULSAR_EXTRA_OPTS)
fi
case $command in
    zookeeper) main=(-Dzookeeper.4lw.commands.whitelist=\\* org.apache.zookeeper.server.quorum.QuorumPeerMain
                     conf/zookeeper.conf) ;;
    bookie) main=(org.apache.bookkeeper.server.Main --conf conf/bookkeeper.conf) ;;
    broker) main=(org.apache.pulsar.PulsarBrokerStarter --broker-conf conf/broker.conf) ;;
    initialize-cluster-metadata) main=(org.apache.pulsar.PulsarClusterMetadataSetup) ;;
    *) echo "pulsar: unknown command $command"; exit 1 ;;
esac
exec "$JAVA_HOME/bin/java" "${options[@]}" "${main[@]}" "$@"
"""
APPLY = """\
#!/bin/bash
# As the official image's: a variable that is named like a setting of the file replaces it, commented out or not;
# PULSAR_PREFIX_<setting> is added where the file has no such setting.
declare -A plain added
while IFS= read -r -d '' entry; do
    name=${entry%%=*}
    if [[ $name == PULSAR_PREFIX_* ]]; then added[${name#PULSAR_PREFIX_}]=${entry#*=}; else plain[$name]=${entry#*=}; fi
done </proc/self/environ
for file in "$@"; do
    lines=()
    declare -A known=()
    while IFS= read -r line; do
        key=${line%%=*} key=${key#\\#} key=${key// /}
        if [[ $line == *=* && $key ]]; then
            known[$key]=yes
            if [[ ${added[$key]+given} ]]; then line=$key=${added[$key]}
            elif [[ ${plain[$key]+given} ]]; then line=$key=${plain[$key]}; fi
        fi
        lines+=("$line")
    done <"$file"
    for key in "${!added[@]}"; do [[ ${known[$key]} ]] || lines+=("$key=${added[$key]}"); done
    printf '%s\\n' "${lines[@]}" >"$file"
done
"""
OF_ALL = '"-XX:+UseZGC -XX:+PerfDisableSharedMem -XX:+AlwaysPreTouch"'
PULSAR_ENV = f"""\
PULSAR_MEM=${{PULSAR_MEM:-"-Xms2g -Xmx2g -XX:MaxDirectMemorySize=4g"}}
PULSAR_GC=${{PULSAR_GC:-{OF_ALL}}}
PULSAR_EXTRA_OPTS=${{PULSAR_EXTRA_OPTS:-"-Dpulsar.allocator.exit_on_oom=true"}}
"""
BOOKIE_ENV = f"""\
BOOKIE_MEM=${{BOOKIE_MEM:-${{PULSAR_MEM:-"-Xms2g -Xmx2g -XX:MaxDirectMemorySize=2g"}}}}
BOOKIE_GC=${{BOOKIE_GC:-${{PULSAR_GC:-{OF_ALL}}}}}
BOOKIE_EXTRA_OPTS=${{BOOKIE_EXTRA_OPTS:-"-Dio.netty.leakDetectionLevel=disabled"}}
"""
BROKER = """\
### --- General broker settings --- ###
# The metadata store URL, as in zk:host:2181
metadataStoreUrl=
configurationMetadataStoreUrl=
brokerServicePort=6650
webServicePort=8080
bindAddress=0.0.0.0
advertisedAddress=
# advertisedListeners=
clusterName=
systemTopicEnabled=true
managedLedgerDefaultEnsembleSize=2
"""
BOOKKEEPER = """\
bookiePort=3181
# journalDirectories=/tmp/bk-journal
journalDirectory=data/bookkeeper/journal
ledgerDirectories=data/bookkeeper/ledgers
advertisedAddress=
# listeningInterface=eth0
allowLoopback=false
zkServers=localhost:2181
# gcWaitTime in ms = the time between two collections
gcWaitTime=900000
autoRecoveryDaemonEnabled=true
"""
ZOOKEEPER = """\
tickTime=2000
initLimit=10
syncLimit=5
dataDir=data/zookeeper
clientPort=2181
#maxClientCnxns=60
autopurge.purgeInterval=1
"""
TTL = "\nnetworkaddress.cache.ttl=1\nnetworkaddress.cache.negative.ttl=1\n"
"""As the official image has it: a container that is started again may have another address."""


def pulsar_files(version: str, java: Path) -> dict[str, Path | str]:
    """Return what is in the image, by path, but for what of this machine Java and bash are linked with."""
    jars = zip(kept_digests(version), pulsar_jars(version).jars, strict=True)
    files: dict[str, Path | str] = {f"pulsar/lib/{name.split(':')[0]}-{jar.name}": jar for name, jar in jars}
    files |= {f"opt/jvm/{path.relative_to(java)}": path for path in java.rglob("*") if path.is_file()}
    security = "conf/security/java.security"
    opened = " ".join(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED)
    return files | {
        f"opt/jvm/{security}": (java / security).read_text() + TTL,
        "pulsar/bin/pulsar": BIN.replace("@OPENED@", opened),
        "pulsar/bin/apply-config-from-env.py": APPLY,
        "pulsar/conf/pulsar_env.sh": PULSAR_ENV,
        "pulsar/conf/bkenv.sh": BOOKIE_ENV,
        "pulsar/conf/broker.conf": BROKER,
        "pulsar/conf/bookkeeper.conf": BOOKKEEPER,
        "pulsar/conf/zookeeper.conf": ZOOKEEPER,
        "pulsar/conf/log4j2.properties": LOG4J.format(stacks="%xEx{12}"),
        "etc/passwd": f"root:x:0:0::/:/bin/bash\npulsar:x:{USER}:0::/pulsar/data:/bin/bash\n",
        "etc/group": "root:x:0:\n",
        "etc/nsswitch.conf": "hosts: files dns\n",
    }
